package wire

import (
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A chatRenderer turns the messages of one request into those of the Chat
// Completions API.
type chatRenderer struct {
	openAI
	reasoning bool
	dialect   Dialect
}

// maxChatCalls is how many calls an answer may have.
const maxChatCalls = 128

// place returns where the result of a call goes: behind the others of the message that
// has the call, which may be followed by more of the same answer.
func (r *chatRenderer) place(id string) int {
	at := len(r.out)
	for i, m := range slices.Backward(r.out) {
		switch {
		case slices.ContainsFunc(m.calls, func(c transcript.ToolCallBlock) bool { return c.ID == id }):
			return at
		case len(m.calls) > 0:
			at = i
		case m.role != "tool":
			return len(r.out)
		}
	}
	return len(r.out)
}

// result renders the texts of a result and returns the rest of it.
func (r *chatRenderer) result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block) {
	m := said{role: "tool", callID: r.ids.result(b.CallID)}
	r.dropExtra(entry, "tool_result", b.Extra)
	for _, c := range b.Content {
		for _, p := range r.parts(r, entry, c) {
			if isType[transcript.TextBlock](p) {
				m.parts = append(m.parts, p)
				continue
			}
			if len(moved) == 0 {
				moved = plainText("[from the result of call " + m.callID + "]")
			}
			r.note(rebuild.MovedMedia, entry, "call "+m.callID)
			moved = append(moved, p)
		}
	}
	if len(m.parts) == 0 && len(moved) > 0 {
		m.parts = plainText("[in the user message behind the results]")
	}
	r.out = slices.Insert(r.out, r.place(m.callID), m)
	return moved
}

func (r *chatRenderer) answer(_ int, m transcript.Message) bool {
	r.ids.open()
	out := said{role: "assistant"}
	for j, b := range m.Content {
		o := originOf(m, j)
		switch b := b.(type) {
		case transcript.TextBlock:
			r.dropExtra(o.Entry, "text", b.Extra)
			ext := r.ext(o, b.Extra)
			if _, refusal := jsontext.Member(ext, "refusal"); refusal && out.refusal == "" {
				out.refusal = b.Text
				continue
			}
			if audio := stringMember(ext, "audio", "id"); audio != "" && out.audio == "" {
				out.audio = audio
				continue
			}
			out.parts = append(out.parts, transcript.TextBlock{Text: b.Text})
		case transcript.ToolCallBlock:
			b.ID = r.callID(o.Entry, b.ID)
			r.dropExtra(o.Entry, "tool_use", b.Extra)
			out.calls = append(out.calls, b)
		case transcript.ThinkingBlock:
			r.think(o, b, &out)
		case transcript.ContextBlock:
			out.parts = append(out.parts, r.parts(r, o.Entry, b)...)
		default:
			r.drop(o.Entry, b)
		}
	}
	spoken := func(p transcript.Block) bool { return !isThinking(p) }
	if !slices.ContainsFunc(out.parts, spoken) && len(out.calls) == 0 && out.refusal == "" && out.audio == "" {
		return false
	}
	if len(out.calls) > maxChatCalls {
		r.note(rebuild.SplitAnswer, originOf(m, 0).Entry, strconv.Itoa(len(out.calls))+" calls")
	}
	if r.reasoning && r.dialect != Mistral && r.dialect != OpenRouter && len(out.calls) > 0 && len(out.reasoning) == 0 {
		out.reasoning = []member{{reasoningContent, []byte(`""`)}}
	}
	// The first message keeps the rest of the answer. All of them have the reasoning,
	// which imitators demand of every answer with calls.
	for calls := range slices.Chunk(out.calls, maxChatCalls) {
		out.calls = calls
		r.out = append(r.out, out)
		out.parts, out.refusal, out.audio = nil, "", ""
	}
	if len(out.calls) == 0 {
		r.out = append(r.out, out)
	}
	return true
}

// The members for reasoning: most imitators have the first.
const (
	reasoningContent = "reasoning_content"
	reasoningPlain   = "reasoning"
	reasoningDetails = "reasoning_details" // with signatures
	reasoningChunks  = "thinking"          // in a part of the content
)

// think gives reasoning back in the members that it came in.
func (r *chatRenderer) think(o transcript.Origin, b transcript.ThinkingBlock, out *said) {
	drop := func(why string) { r.note(rebuild.DroppedThinking, o.Entry, why) }
	switch {
	case !r.reasoning:
		drop("the API does not take it")
	case !r.native(o):
		drop("of another model")
	case len(out.reasoning) > 0:
		drop("a second one in an answer")
	case r.dialect == Mistral:
		out.parts = append(out.parts, transcript.ThinkingBlock{Thinking: b.Thinking})
	default:
		ext := r.ext(o, b.Extra)
		name := reasoningContent
		if stringMember(ext, "member") == reasoningPlain {
			name = reasoningPlain
		}
		out.reasoning = append(out.reasoning, member{name, jsontext.AppendString(nil, b.Thinking)})
		if details, ok := jsontext.Member(ext, reasoningDetails); ok && jsontext.IsArray(details) {
			out.reasoning = append(out.reasoning, member{reasoningDetails, details})
		}
	}
}
