package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Pending is what is unfinished at the end of a history: after a restart an
// application resumes or closes it. The zero value says that nothing is.
type Pending struct {
	// Owed says that it is the model's turn to speak: the history ends with a
	// user message. The fields below say more.
	Owed bool `json:"owed,omitempty"`
	// User is the text of the user that has no answer yet.
	User string `json:"user,omitempty"`
	// Calls are the calls of the last answer that have no result: still
	// running, or lost with the process that ran them. The history shows an
	// error result for each until the real one is appended.
	Calls []transcript.ToolCallBlock `json:"-"`
	// Cut says that the last answer was aborted, failed or not written whole.
	Cut bool `json:"cut,omitempty"`
}

func (a *assembler) pending() Pending {
	var p Pending
	h := a.history()
	if len(h.Messages) == 0 {
		return p
	}
	if last := h.Messages[len(h.Messages)-1]; last.Role == transcript.RoleUser && len(a.turns) > 0 {
		p.Owed = true
	}
	if len(a.turns) == 0 {
		return p
	}
	t := a.turns[len(a.turns)-1]
	var after []transcript.Block // user blocks since the last answer
	for _, it := range slices.Backward(t.items) {
		if s := it.said; s != nil {
			after = append(append([]transcript.Block{}, s.blocks...), after...)
			continue
		}
		ans := it.answer
		p.Cut = ans.cut
		for _, part := range ans.parts {
			if part.call != nil && part.call.kept() && part.call.result == nil {
				p.Calls = append(p.Calls, part.call.block)
			}
		}
		break
	}
	p.User = transcript.Message{Content: after}.Text()
	return p
}
