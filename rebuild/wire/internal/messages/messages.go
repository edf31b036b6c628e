// Package messages renders the messages of a request for the Anthropic Messages
// API, and for Bedrock, which writes them in another form.
package messages

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// A Renderer renders the messages of one request for the Messages API.
type Renderer struct {
	format.Rendering
	thinking  string // type of the request's member "thinking"
	reasons   bool   // the last answer has no calls, or begins with reasoning
	turn      int    // index of the message that started the running turn
	Media     MediaBudget
	toolsets  map[string]json.RawMessage // by the ID of a call
	Optional  map[string][]string        // optional members of blocks, by type
	Tools     map[string]bool            // names of the tools that references may name
	stays     map[string]int             // see staying
	waiting   map[string]bool            // calls that the provider runs, so far without a result
	container js.Opt                     // of code in the newest answer with calls

	PlainPrompts bool // see anthropic.Format
}

// New returns a renderer with the reasoning that can go back to a model. container is the
// one that the application names.
func New(req transcript.Request, api, container string) Renderer {
	req.Messages, _ = rebuild.Reasoned(req.Messages, rebuild.PromptHash(req.System, req.Tools))
	r := Renderer{
		Rendering: format.NewRendering(req, api, format.IDForm{}),
		reasons:   true, turn: runningTurn(req.Messages), toolsets: map[string]json.RawMessage{}, waiting: map[string]bool{}, container: js.Opt(container),
	}
	r.stays = r.staying()
	return r
}

// blocksOf makes the content of message i.
type blocksOf func(i int, m transcript.Message) []transcript.Block

// Messages goes through the request once, in order, and only looks back, so no
// rendering depends on later messages; the exceptions are the start of the
// running turn and calls of the provider's own tools without a result.
func (r *Renderer) Messages(user, answer blocksOf) []transcript.Message {
	out := make([]transcript.Message, 0, len(r.Req.Messages))
	dropped := false
	for i, m := range r.Req.Messages {
		render, kind, entry := answer, "an answer", format.OriginOf(m, 0).Entry
		if m.Role == transcript.RoleUser {
			render, kind = user, "a message"
		}
		content, last := render(i, m), transcript.Message{}
		if n := len(out); n > 0 {
			last = out[n-1]
		}
		if len(content) == 0 && (len(m.Content) > 0 || r.API == format.APIBedrock) {
			if last.Role == roleSystem { // no message can join it
				out, r.reasons = append(out, transcript.AssistantText("[no answer]")), true
				r.Note("added-answer", entry, "behind a system message, as nothing is left of one")
				continue
			}
			r.Note("empty-message", entry, "nothing is left of "+kind)
			dropped = true
			continue
		}
		if m.Role == transcript.RoleAssistant && !format.HasCalls(content) {
			r.IDs.Open() // later results have no call
		}
		joins := m.Role == transcript.RoleUser && last.Role == transcript.RoleUser && (dropped || r.API == format.APIBedrock)
		if m.Content = content; joins {
			m, out = last, out[:len(out)-1]
			m.Content = ResultsFirst(last.Content, content)
			r.Note("merged-messages", entry, "")
		}
		out, dropped = withSystem(out, m), false
	}
	if n := len(out) - 1; n >= 0 && len(out[n].Content) > 0 {
		last := &out[n].Content[len(out[n].Content)-1]
		if text, ok := (*last).(transcript.TextBlock); ok && r.Prefill && out[n].Role == transcript.RoleAssistant && !neutral.IsBlank(text.Text) {
			text.Text = strings.TrimRightFunc(text.Text, unicode.IsSpace) // the API refuses it there
			*last = text
		} else if !isServerTool(*last) {
			if end := r.Ending(out[n]); end != nil {
				out = append(out, transcript.Message{Role: transcript.RoleUser, Content: end})
			}
		}
	}
	return out
}

// UserContent renders the blocks of user message i with a function.
func (r *Renderer) UserContent(i int, m transcript.Message, block func(entry string, b transcript.Block) []transcript.Block) []transcript.Block {
	out := make([]transcript.Block, 0, len(m.Content))
	for j, b := range m.Content {
		o := format.OriginOf(m, j)
		if res, ok := b.(transcript.ToolResultBlock); ok {
			res.CallID = r.IDs.Result(res.CallID)
			out = append(out, r.result(o.Entry, res, block))
			continue
		}
		for _, b := range block(o.Entry, b) {
			if text, ok := b.(transcript.TextBlock); ok && o.Block == transcript.PromptEntry && r.asSystem(i) {
				b = systemText{text}
			}
			out = append(out, b)
		}
	}
	return out
}

// AnswerContent renders the blocks of answer i with a function, without reasoning
// that cannot go back. It sets paired for the indexes in pairs.
func (r *Renderer) AnswerContent(i int, m transcript.Message, pairs map[int]bool, block func(o transcript.Origin, b transcript.Block, paired bool) transcript.Block) []transcript.Block {
	if format.HasCalls(m.Content) {
		r.IDs.Open()
	}
	out := make([]transcript.Block, 0, len(m.Content))
	var origins []transcript.Origin // of out
	for j, b := range m.Content {
		o := format.OriginOf(m, j)
		if b = block(o, b, pairs[j]); b != nil {
			out, origins = append(out, b), append(origins, o)
		}
	}
	if out = r.fitThinking(i, out, origins); len(out) > 0 {
		r.reasons = !format.HasCalls(out) || transcript.IsReasoning(out[0])
	}
	return out
}

// AnswerBlock returns nil for blocks that cannot be in an answer. paired is set if
// a block of a provider's own tool comes with its other half, or if a single block
// is complete.
func (r *Renderer) AnswerBlock(o transcript.Origin, b transcript.Block, paired bool) transcript.Block {
	switch b := b.(type) {
	case transcript.TextBlock, transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		return r.Known(o.Entry, b, r.Native(o))
	case transcript.ToolCallBlock:
		b.ID = r.CallID(o.Entry, b.ID)
		call, _ := r.Known(o.Entry, b, r.Kin(o)).(transcript.ToolCallBlock)
		if name := call.Extra[ToolsetName]; name != nil {
			r.toolsets[call.ID] = name
		}
		return call
	case transcript.ContextBlock:
		r.Note("replaced-block", o.Entry, "a context block in an answer")
		return neutral.ContextText(b)
	case transcript.ToolResultBlock:
		return r.result(o.Entry, b, r.UserBlocks) // not repaired here
	case transcript.RawBlock:
		if paired {
			return r.rawBlock(o.Entry, b)
		}
	}
	if text, ok := r.Instead(o.Entry, b); ok {
		return text
	}
	return nil
}

// ResultsFirst joins the contents of two user messages.
func ResultsFirst(x, y []transcript.Block) []transcript.Block {
	all := slices.Concat(x, y)
	slices.SortStableFunc(all, func(a, b transcript.Block) int {
		return Count(format.IsType[transcript.ToolResultBlock](b)) - Count(format.IsType[transcript.ToolResultBlock](a))
	})
	return all
}

// Count returns 1 for true.
func Count(b bool) int {
	if b {
		return 1
	}
	return 0
}
