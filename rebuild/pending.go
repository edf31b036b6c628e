package rebuild

import "github.com/convolog/convolog/transcript"

// Pending is what is unfinished at the end of a history: after a restart an
// application resumes or closes it. The zero value says that nothing is.
type Pending struct {
	// Owed says that it is the model's turn to speak: the history ends with a
	// user message. The fields below say more.
	Owed bool `json:"owed,omitempty"`
	// User is the text of the user that has no answer yet.
	User string `json:"user,omitempty"`
	// Calls are the calls of the last answer that have no result, behind older
	// ones of which a dispatch or a decision speaks. The history shows an error
	// result for each until the real one is appended.
	Calls []PendingCall `json:"calls,omitempty"`
	// Queued are texts of the user that wait for the end of the turn.
	Queued []Queued `json:"queued,omitempty"`
	// Cut says that the last answer was aborted, failed or not written whole.
	Cut bool `json:"cut,omitempty"`
}

func (a *assembler) pending() Pending {
	var p Pending
	msgs := a.render(nil)
	if len(a.items) == 0 || len(msgs) == 0 {
		return p
	}
	p.Owed = msgs[len(msgs)-1].Role == transcript.RoleUser
	items := a.items[a.last().first:]
	spoken := len(items) // the items up to the last answer
	for spoken > 0 && !items[spoken-1].answer {
		spoken--
	}
	var last *item
	if spoken > 0 {
		last = items[spoken-1]
		p.Cut = last.cut
	}
	p.Calls = a.pendingCalls(last)
	var after []transcript.Block // user blocks since then
	for _, it := range items[spoken:] {
		if it.late != nil || it.prompt {
			continue
		}
		for _, part := range it.parts {
			after = append(after, part.block)
		}
	}
	p.User = transcript.Message{Content: after}.Text()
	return p
}
