package wire

import (
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A talk is a request on its way to an API whose results are apart from what the user
// says. It goes through the messages once, in order, and looks back only.
type talk struct {
	rendering
	out     []said
	dropped bool // nothing is left of the last answer
}

// A said is a message or a part of one, as these APIs have it.
type said struct {
	role  string
	parts []transcript.Block
	items []written // in place of parts, or of all else
	// Of Chat Completions:
	refusal   string
	calls     []transcript.ToolCallBlock
	callID    string   // of a result
	audio     string   // ID of what the answer said aloud
	reasoning []member // as the members that it came in
}

// A talker renders for one of these APIs.
type talker interface {
	mediaForm
	// answer renders answer i, and reports whether something is left of it.
	answer(i int, m transcript.Message) bool
	// result renders a result, and returns what it cannot hold.
	result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block)
}

func (r *talk) messages(t talker) {
	for i, m := range r.req.Messages {
		if m.Role != transcript.RoleAssistant {
			r.user(m, t)
			r.dropped = false
		} else if r.dropped = !t.answer(i, m); r.dropped && len(m.Content) > 0 {
			r.note(rebuild.EmptyMessage, originOf(m, 0).Entry, "nothing is left of an answer")
		}
	}
}

// user renders results, and one message of what they leave and of the rest. A later
// system prompt is a message of the developer's where there are such.
func (r *talk) user(m transcript.Message, t talker) {
	var moved, rest []transcript.Block
	for j, b := range m.Content {
		o := originOf(m, j)
		if res, ok := b.(transcript.ToolResultBlock); ok {
			moved = append(moved, t.result(o.Entry, res)...)
			continue
		}
		parts := r.parts(t, o.Entry, b)
		if o.Block == transcript.PromptEntry && r.api == apiOpenAIResponses {
			r.says(m, rest)
			r.out, rest = append(r.out, said{role: "developer", parts: parts}), nil
		} else {
			rest = append(rest, parts...)
		}
	}
	r.says(m, append(moved, rest...))
}

// last returns what was said last, nothing in front of all.
func (r *talk) last() *said {
	if n := len(r.out); n > 0 {
		return &r.out[n-1]
	}
	return &said{}
}

// says adds what the user says; behind an answer that was left out, to the message in
// front of it. Services that want IDs of nine characters also want an answer between
// results and what the user says.
func (r *talk) says(m transcript.Message, parts []transcript.Block) {
	switch last := r.last(); {
	case len(parts) == 0:
		return
	case r.dropped && last.role == "user":
		last.parts = append(last.parts, parts...)
		r.note(rebuild.MergedMessages, originOf(m, 0).Entry, "")
		return
	case last.role == "tool" && r.ids.form.exact:
		r.out = append(r.out, said{role: "assistant", parts: plainText("[results received]")})
		r.note(rebuild.AddedAnswer, originOf(m, 0).Entry, "between results and what the user says")
	}
	r.out = append(r.out, said{role: "user", parts: parts})
}
