package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A renderer turns the messages of one request into those of the Messages API.
type renderer struct {
	rendering
	thinking string // type of the request's member "thinking"
	reasons  bool   // the last answer calls nothing or begins with reasoning
	turn     int    // index of the message that started the running turn
	media    mediaBudget
	toolsets map[string]json.RawMessage // by the ID of a call
	optional map[string][]string        // members that a block may have besides its own, by its type

	plainPrompts bool // see Anthropic
}

// newRenderer returns a renderer with the reasoning that a model can be shown again.
func newRenderer(req transcript.Request, api string) renderer {
	req.Messages, _ = rebuild.Reasoned(req.Messages, rebuild.PromptHash(req.System, req.Tools))
	return renderer{
		rendering: newRendering(req, api, idForm{}),
		reasons:   true, turn: runningTurn(req.Messages), toolsets: map[string]json.RawMessage{},
	}
}

// blocksOf makes the content of message i.
type blocksOf func(i int, m transcript.Message) []transcript.Block

// messages goes through the request once, in order, and looks back only, so
// what it makes of a message does not depend on those after it; the exceptions
// are the start of the running turn and a paused answer at the very end.
func (r *renderer) messages(user, answer blocksOf) []transcript.Message {
	out := make([]transcript.Message, 0, len(r.req.Messages))
	dropped := false
	for i, m := range r.req.Messages {
		render, kind, entry := answer, "an answer", originOf(m, 0).Entry
		if m.Role == transcript.RoleUser {
			render, kind = user, "a message"
		}
		content, last := render(i, m), transcript.Message{}
		if n := len(out); n > 0 {
			last = out[n-1]
		}
		if len(content) == 0 && (len(m.Content) > 0 || r.api == apiBedrock) {
			if last.Role == roleSystem { // nothing can be joined to it
				out, r.reasons = append(out, transcript.AssistantText("[no answer]")), true
				r.note(rebuild.AddedAnswer, entry, "behind a system message, as nothing is left of one")
				continue
			}
			r.note(rebuild.EmptyMessage, entry, "nothing is left of "+kind)
			dropped = true
			continue
		}
		if m.Role == transcript.RoleAssistant && !hasCalls(content) {
			r.ids.open() // results that follow answer nothing
		}
		joins := m.Role == transcript.RoleUser && last.Role == transcript.RoleUser && (dropped || r.api == apiBedrock)
		if m.Content = content; joins {
			m, out = last, out[:len(out)-1]
			m.Content = resultsFirst(last.Content, content)
			r.note(rebuild.MergedMessages, entry, "")
		}
		out, dropped = withSystem(out, m), false
	}
	return out
}

// userContent returns what a function makes of the blocks of user message i.
func (r *renderer) userContent(i int, m transcript.Message, block func(entry string, b transcript.Block) []transcript.Block) []transcript.Block {
	out := make([]transcript.Block, 0, len(m.Content))
	for j, b := range m.Content {
		o := originOf(m, j)
		if res, ok := b.(transcript.ToolResultBlock); ok {
			res.CallID = r.ids.result(res.CallID)
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

// answerContent returns what a function makes of the blocks of answer i, without
// reasoning that cannot go back. The indexes of blocks of which paired is true are
// those in pairs.
func (r *renderer) answerContent(i int, m transcript.Message, pairs map[int]bool, block func(o transcript.Origin, b transcript.Block, paired bool) transcript.Block) []transcript.Block {
	if hasCalls(m.Content) {
		r.ids.open()
	}
	out := make([]transcript.Block, 0, len(m.Content))
	var origins []transcript.Origin // of out
	for j, b := range m.Content {
		o := originOf(m, j)
		if b = block(o, b, pairs[j]); b != nil {
			out, origins = append(out, b), append(origins, o)
		}
	}
	if out = r.fitThinking(i, out, origins); len(out) > 0 {
		r.reasons = !hasCalls(out) || isThinking(out[0])
	}
	return out
}

// answerBlock returns nil for what cannot be in an answer. paired says that a
// block of a provider's own tool has its other half, and that a block which stands
// alone is whole.
func (r *renderer) answerBlock(o transcript.Origin, b transcript.Block, paired bool) transcript.Block {
	switch b := b.(type) {
	case transcript.TextBlock, transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		return r.known(o.Entry, b, r.native(o))
	case transcript.ToolCallBlock:
		b.ID = r.callID(o.Entry, b.ID)
		call, _ := r.known(o.Entry, b, r.native(o)).(transcript.ToolCallBlock)
		if name := call.Extra[toolsetName]; name != nil {
			r.toolsets[call.ID] = name
		}
		return call
	case transcript.ContextBlock:
		r.note(rebuild.ReplacedBlock, o.Entry, "a context block in an answer")
		return rebuild.ContextText(b)
	case transcript.ToolResultBlock:
		return r.result(o.Entry, b, r.userBlocks) // not repaired here
	case transcript.RawBlock:
		if paired {
			return r.rawBlock(o.Entry, b)
		}
	}
	r.drop(o.Entry, b)
	return nil
}

// vouched stands for the origin of a block of a message without Origins.
var vouched = transcript.Origin{API: apiAnthropic, Model: "\x00vouched"}

func originOf(m transcript.Message, j int) transcript.Origin {
	switch {
	case m.Origins == nil:
		return vouched
	case j < len(m.Origins):
		return m.Origins[j]
	}
	return transcript.Origin{}
}

// sameModel reports whether a and b name one model: the same name, or an alias
// and the dated name that answers give for it.
func sameModel(a, b string) bool {
	if a == b {
		return true
	}
	baseA, dateA := cutDate(a)
	baseB, dateB := cutDate(b)
	return baseA == baseB && (dateA == "" || dateB == "")
}

// cutDate splits "name-20260131", "name@20260131" and "name-2026-01-31";
// "name-latest" is an alias without a date.
func cutDate(model string) (name, date string) {
	if name, ok := strings.CutSuffix(model, "-latest"); ok {
		return name, ""
	}
	for _, form := range []string{"-2006-01-02", "-20060102", "@20060102"} {
		at := len(model) - len(form)
		if at <= 0 {
			continue
		}
		if _, err := time.Parse(form, model[at:]); err == nil {
			return model[:at], model[at+1:]
		}
	}
	return model, ""
}

// resultsFirst joins the contents of two user messages.
func resultsFirst(x, y []transcript.Block) []transcript.Block {
	all := slices.Concat(x, y)
	slices.SortStableFunc(all, func(a, b transcript.Block) int {
		return count(isType[transcript.ToolResultBlock](b)) - count(isType[transcript.ToolResultBlock](a))
	})
	return all
}

func isType[B transcript.Block](b transcript.Block) bool {
	_, ok := b.(B)
	return ok
}
