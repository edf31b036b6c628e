package format

import (
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// A Talk is a request to an API that separates results from the user's texts. It goes
// through the messages once, in order, and only looks back.
type Talk struct {
	Rendering
	Out     []Said
	dropped bool // the last answer was left out
}

// A Said is a message, or a part of one, in such an API.
type Said struct {
	Role  string
	Parts []transcript.Block
	Items []js.Written // replace Parts, or all else
	// Of Chat Completions:
	Refusal   string
	Calls     []transcript.ToolCallBlock
	CallID    string      // of a result
	Audio     string      // ID of the spoken answer
	Reasoning []js.Member // as the members that it came in
	Prefix    string      // the member that asks the model to continue
}

// A talker renders for one such API.
type talker interface {
	mediaForm
	// Answer renders answer i, and reports whether something is left of it.
	Answer(i int, m transcript.Message) bool
	// Result renders a result, and returns the blocks it cannot hold.
	Result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block)
}

// Messages renders the messages of the request.
func (r *Talk) Messages(t talker) {
	for i, m := range r.Req.Messages {
		if m.Role != transcript.RoleAssistant {
			r.user(m, t)
			r.dropped = false
		} else if r.dropped = !t.Answer(i, m); r.dropped && len(m.Content) > 0 {
			r.Note("empty-message", OriginOf(m, 0).Entry, "nothing is left of an answer")
		}
	}
	if n := len(r.Req.Messages); n > 0 && !r.dropped {
		if end := r.Ending(r.Req.Messages[n-1]); end != nil {
			r.Out = append(r.Out, Said{Role: "user", Parts: end})
		}
	}
}

// Ending returns the user's text that follows an answer at the end, because many
// models refuse such an end. It is nil if no text is needed.
func (r *Rendering) Ending(last transcript.Message) []transcript.Block {
	if last.Role != transcript.RoleAssistant || r.Prefill || HasCalls(last.Content) {
		return nil
	}
	r.Note("added-text", "", "after the answer at the end")
	return PlainText("Continue.")
}

// user renders results, then one message with their leftovers and the other
// blocks. A later system prompt becomes a developer message if the API has these.
func (r *Talk) user(m transcript.Message, t talker) {
	var moved, rest []transcript.Block
	for j, b := range m.Content {
		o := OriginOf(m, j)
		if res, ok := b.(transcript.ToolResultBlock); ok {
			moved = append(moved, t.Result(o.Entry, res)...)
			continue
		}
		parts := r.Parts(t, o.Entry, b)
		if o.Block == transcript.PromptEntry && r.API == APIOpenAIResponses {
			r.says(m, rest)
			r.Out, rest = append(r.Out, Said{Role: "developer", Parts: parts}), nil
		} else {
			rest = append(rest, parts...)
		}
	}
	r.says(m, append(moved, rest...))
}

// Last returns the last message, or the zero value before the first.
func (r *Talk) Last() *Said {
	if n := len(r.Out); n > 0 {
		return &r.Out[n-1]
	}
	return &Said{}
}

// says adds texts of the user; after an omitted answer, to the message before.
// Services that want IDs of nine characters also want an answer between results and
// texts of the user.
func (r *Talk) says(m transcript.Message, parts []transcript.Block) {
	switch last := r.Last(); {
	case len(parts) == 0:
		return
	case r.dropped && last.Role == "user":
		last.Parts = append(last.Parts, parts...)
		r.Note("merged-messages", OriginOf(m, 0).Entry, "")
		return
	case last.Role == "tool" && r.IDs.form.Exact:
		r.Out = append(r.Out, Said{Role: "assistant", Parts: PlainText("[results received]")})
		r.Note("added-answer", OriginOf(m, 0).Entry, "between results and what the user says")
	}
	r.Out = append(r.Out, Said{Role: "user", Parts: parts})
}
