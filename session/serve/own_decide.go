package serve

import (
	"context"
	"errors"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func (q *Request) ownPending(s *session.Session, _ none) (rebuild.Pending, error) {
	return s.Pending(q.Context())
}

type ownDecision struct {
	Verdict transcript.Verdict `json:"verdict"`          // approve, reject or hold
	Reason  string             `json:"reason,omitempty"` // the model sees it after a rejection
}

var verdicts = []transcript.Verdict{transcript.Approve, transcript.Reject, transcript.Hold}

// ownDecide records the decision of the principal's owner on a call.
func (q *Request) ownDecide(s *session.Session, d ownDecision) (n none, err error) {
	return n, q.Decide(s, q.PathValue("entry"), d.Verdict, d.Reason)
}

// Decide records a decision of the principal's owner on a call, as [turn.Decide] does,
// and lets the answer continue. Repeating a decision succeeds.
func (q *Request) Decide(s *session.Session, call string, verdict transcript.Verdict, reason string) error {
	if !slices.Contains(verdicts, verdict) {
		return Invalid("the verdict must be approve, reject or hold")
	}
	ctx := context.WithoutCancel(q.Context())
	err := turn.Decide(ctx, s, call, verdict, q.Principal.Owner, reason)
	if errors.Is(err, session.ErrConflict) {
		standing, findErr := verdictOn(ctx, s, call)
		if findErr != nil {
			return findErr
		}
		if standing == verdict {
			err = nil
		}
	}
	if err == nil {
		q.sv.answers.answer(s)
	}
	return err
}

// verdictOn returns the verdict on the calls of an entry, or "" before a decision. For an
// entry without calls the error is a 404 problem.
func verdictOn(ctx context.Context, s *session.Session, call string) (v transcript.Verdict, err error) {
	found, err := search.Window(ctx, s, call, 0, 0)
	if err != nil {
		return "", err
	}
	f, _ := found[0].Body.(transcript.MessageLine)
	if !slices.ContainsFunc(f.Content, func(b transcript.Block) bool { return transcript.BlockType(b) == transcript.TypeToolUse }) {
		return "", errNotFound
	}
	for e, err := range s.Entries(ctx, call) {
		if err != nil {
			return "", err
		}
		d, ok := e.Body.(transcript.Decision)
		if ok && d.Call == call && (v == "" || v == transcript.Hold) {
			v = d.Verdict
		}
	}
	return v, nil
}

// ownInterrupt asks for an end of the turn, on any server that runs it.
func (q *Request) ownInterrupt(s *session.Session, _ none) (n none, err error) {
	return n, q.Stop(s)
}
