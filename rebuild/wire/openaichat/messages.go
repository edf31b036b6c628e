package openaichat

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

// A renderer turns the messages of one request into messages of the Chat
// Completions API.
type renderer struct {
	openai.Renderer
	reasoning bool
	dialect   Dialect
}

// maxCalls is how many calls an answer may have.
const maxCalls = 128

// place returns the place of a call's result: after the other results of its message,
// which more messages of the same answer may follow.
func (r *renderer) place(id string) int {
	at := len(r.Out)
	for i, m := range slices.Backward(r.Out) {
		switch {
		case slices.ContainsFunc(m.Calls, func(c transcript.ToolCallBlock) bool { return c.ID == id }):
			return at
		case len(m.Calls) > 0:
			at = i
		case m.Role != "tool":
			return len(r.Out)
		}
	}
	return len(r.Out)
}

// Result renders the texts of a result and returns the rest of it.
func (r *renderer) Result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block) {
	m := format.Said{Role: "tool", CallID: r.IDs.Result(b.CallID)}
	r.DropExtra(entry, "tool_result", b.Extra)
	for _, c := range b.Content {
		for _, p := range r.Parts(r, entry, c) {
			if format.IsType[transcript.TextBlock](p) {
				m.Parts = append(m.Parts, p)
				continue
			}
			if len(moved) == 0 {
				moved = format.PlainText("[from the result of call " + m.CallID + "]")
			}
			r.Note("moved-media", entry, "call "+m.CallID)
			moved = append(moved, p)
		}
	}
	if len(m.Parts) == 0 && len(moved) > 0 {
		m.Parts = format.PlainText("[in the user message behind the results]")
	}
	r.Out = slices.Insert(r.Out, r.place(m.CallID), m)
	return moved
}

func (r *renderer) Answer(_ int, m transcript.Message) bool {
	r.IDs.Open()
	out := format.Said{Role: "assistant"}
	batch := -1 // of the last text
	for j, b := range m.Content {
		o := format.OriginOf(m, j)
		switch b := b.(type) {
		case transcript.TextBlock:
			r.DropExtra(o.Entry, "text", b.Extra)
			ext := r.Ext(o, b.Extra)
			if _, refusal := jsontext.Member(ext, "refusal"); refusal && out.Refusal == "" {
				out.Refusal = b.Text
				continue
			}
			if audio := js.String(ext, "audio", "id"); audio != "" && out.Audio == "" {
				out.Audio = audio
				continue
			}
			between := "\n\n"
			if batch == o.Batch {
				between = "" // it continues the text before
			}
			batch = o.Batch
			out.Parts = appendPart(out.Parts, transcript.TextBlock{Text: b.Text}, between)
		case transcript.ToolCallBlock:
			b.ID = r.CallID(o.Entry, b.ID)
			r.DropExtra(o.Entry, "tool_use", b.Extra)
			out.Calls = append(out.Calls, b)
		case transcript.ThinkingBlock:
			r.think(o, b, &out)
		case transcript.ContextBlock:
			out.Parts = append(out.Parts, r.Parts(r, o.Entry, b)...)
		default:
			if text, ok := r.Instead(o.Entry, b); ok {
				out.Parts, batch = appendPart(out.Parts, text, "\n\n"), -1
			}
		}
	}
	spoken := func(p transcript.Block) bool { return !transcript.IsReasoning(p) }
	if !slices.ContainsFunc(out.Parts, spoken) && len(out.Calls) == 0 && out.Refusal == "" && out.Audio == "" {
		return false
	}
	if len(out.Calls) > maxCalls {
		r.Note("split-answer", format.OriginOf(m, 0).Entry, strconv.Itoa(len(out.Calls))+" calls")
	}
	if r.reasoning && r.dialect != Mistral && r.dialect != OpenRouter && len(out.Calls) > 0 && len(out.Reasoning) == 0 {
		out.Reasoning = []js.Member{{Name: reasoningContent, Value: []byte(`""`)}}
	}
	// The first message keeps the rest of the answer. Every message repeats the
	// reasoning, which imitators demand of answers with calls.
	for calls := range slices.Chunk(out.Calls, maxCalls) {
		out.Calls = calls
		r.Out = append(r.Out, out)
		out.Parts, out.Refusal, out.Audio = nil, "", ""
	}
	if len(out.Calls) == 0 {
		r.Out = append(r.Out, out)
	}
	return true
}

// The members for reasoning: most imitators use the first.
const (
	reasoningContent = "reasoning_content"
	reasoningPlain   = "reasoning"
	reasoningDetails = "reasoning_details" // with signatures
	reasoningChunks  = "thinking"          // in a part of the content
)

// think gives reasoning back in the members that it came in.
func (r *renderer) think(o transcript.Origin, b transcript.ThinkingBlock, out *format.Said) {
	drop := func(why string) { r.Note("dropped-thinking", o.Entry, why) }
	switch {
	case !r.reasoning:
		drop("the API does not take it")
	case !r.Native(o):
		drop("of another model")
	case len(out.Reasoning) > 0:
		drop("a second one in an answer")
	case r.dialect == Mistral:
		out.Parts = append(out.Parts, transcript.ThinkingBlock{Thinking: b.Thinking})
	default:
		ext := r.Ext(o, b.Extra)
		name := reasoningContent
		if js.String(ext, "member") == reasoningPlain {
			name = reasoningPlain
		}
		out.Reasoning = append(out.Reasoning, js.Member{Name: name, Value: jsontext.AppendString(nil, b.Thinking)})
		if details, ok := jsontext.Member(ext, reasoningDetails); ok && jsontext.IsArray(details) {
			out.Reasoning = append(out.Reasoning, js.Member{Name: reasoningDetails, Value: details})
		}
	}
}

func messageJSON(m format.Said) js.Written {
	members := []any{"role", m.Role, "tool_call_id", js.Opt(m.CallID), m.Prefix, js.When(m.Prefix != "", "true")}
	for _, r := range m.Reasoning {
		members = append(members, r.Name, r.Value)
	}
	content := openai.Content(joined(m), partJSON)
	if len(m.Parts) == 0 && m.Role == "assistant" {
		content = json.RawMessage("null")
	}
	members = append(members, "content", content)
	if m.Audio != "" {
		members = append(members, "audio", js.Object("id", m.Audio))
	}
	return js.Object(append(members, "refusal", js.Opt(m.Refusal), "tool_calls", js.OptList(m.Calls, callJSON))...)
}

// joined returns the parts of a message with neighbouring texts as one: many services
// take only a string as content. An answer's parts are already joined.
func joined(m format.Said) (parts []transcript.Block) {
	if m.Role == "assistant" {
		return m.Parts
	}
	for _, p := range m.Parts {
		parts = appendPart(parts, p, "\n\n")
	}
	return parts
}

// appendPart adds a part, or joins a text to a text before it.
func appendPart(parts []transcript.Block, p transcript.Block, between string) []transcript.Block {
	text, isText := p.(transcript.TextBlock)
	if n := len(parts); isText && n > 0 {
		if last, ok := parts[n-1].(transcript.TextBlock); ok {
			parts[n-1] = transcript.TextBlock{Text: last.Text + between + text.Text}
			return parts
		}
	}
	return append(parts, p)
}

func partJSON(b transcript.Block) js.Written {
	switch b := b.(type) {
	case transcript.TextBlock:
		return js.Object("type", "text", "text", b.Text)
	case transcript.ThinkingBlock: // of Mistral
		return js.Object("type", "thinking", "thinking", js.List(format.PlainText(b.Thinking), partJSON))
	case transcript.ImageBlock:
		return js.Object("type", "image_url", "image_url", js.Object("url", openai.SourceURL(b.Source)))
	case transcript.DocumentBlock:
		file := js.Object("file_id", js.Opt(b.Source.FileID), "filename", js.Opt(b.Title), "file_data", js.Opt(openai.SourceURL(b.Source)))
		return js.Object("type", "file", "file", file)
	case transcript.RawBlock:
		return js.Object("type", "input_audio", "input_audio", js.Get(b.JSON, "input_audio"))
	}
	return nil
}

func callJSON(c transcript.ToolCallBlock) js.Written {
	return js.Object("id", c.ID, "type", "function", "function", js.Object("name", c.Name, "arguments", openai.CallArguments(c.Input)))
}
