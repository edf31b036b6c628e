package serve

import (
	"cmp"
	"context"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Reasons why a turn ended without an answer, for the field Ended of an interrupt.
const (
	endStopped = "stopped" // on request
	endTimeout = "timeout"
	endClosed  = "closed" // the server was closed
	endFailed  = "failed" // the responder failed
	endLost    = "lost"   // the server of the turn was killed
)

// isOpen reports whether the last drained text waits for an answer.
func isOpen(ctx context.Context, s *session.Session) (bool, error) {
	text, err := lastDrained(ctx, s)
	if err != nil || text.ID == "" {
		return false, err
	}
	t := newTail("")
	for e, err := range s.Entries(ctx, text.ID) {
		if err != nil {
			return false, err
		}
		for _, f := range t.add(e) {
			if f.Kind == frameEnd {
				return false, nil
			}
		}
	}
	return true, nil
}

// lastDrained returns the last message of a user, or the zero entry if it was not queued.
func lastDrained(ctx context.Context, s *session.Session) (none transcript.Entry, err error) {
	before := ""
	for range lookBack / 64 {
		page, err := search.Page(ctx, s, before, -64)
		if err != nil || len(page) == 0 {
			return none, err
		}
		for _, e := range slices.Backward(page) {
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeUser {
				if f.Queued == "" {
					return none, nil
				}
				return e, nil
			}
		}
		before = page[0].ID
	}
	return none, nil
}

// running returns the drained text whose answer is unfinished, or else the first queued
// text. Both are empty if no text waits for an answer.
func running(ctx context.Context, s *session.Session) (drained transcript.Entry, queued string, err error) {
	pending, err := s.Pending(ctx) // first: a text that is drained afterwards is open
	if err != nil {
		return drained, "", err
	}
	open, err := isOpen(ctx, s)
	if open {
		drained, err = lastDrained(ctx, s)
	} else if len(pending.Queued) > 0 {
		queued = pending.Queued[0].Entry
	}
	return drained, queued, err
}

// runningTurn returns the entry after which the unfinished or next answer begins, or "" if
// no text waits for an answer.
func runningTurn(ctx context.Context, s *session.Session) (string, error) {
	drained, queued, err := running(ctx, s)
	return cmp.Or(drained.ID, queued), err
}

// A suspension is the state of a turn with held calls. Such a turn needs no responder
// until a person has decided on all held calls. The zero value is the state of a turn
// without held calls, or of a finished turn.
type suspension struct {
	held     []string // the calls that wait for a person
	decision string   // the last decision on a held call; an answer resets it
	asked    bool     // a client asked to stop the turn
	running  bool     // a text was drained, and its turn is not over
}

// waits reports whether the turn waits for a person.
func (h *suspension) waits() bool { return len(h.held) > 0 && !h.asked }

// continues reports whether every held call is decided and no answer has followed.
func (h *suspension) continues() bool { return len(h.held) == 0 && h.decision != "" && !h.asked }

// or returns endStopped if a client stopped the turn while it waited, and otherwise why.
func (h *suspension) or(why string) string {
	if h.asked && (len(h.held) > 0 || h.decision != "") {
		return endStopped
	}
	return why
}

func (h *suspension) add(e transcript.Entry) {
	switch b := e.Body.(type) {
	case transcript.Queued:
		if !h.running && len(h.held) == 0 { // the request was for an earlier turn
			h.asked = false
		}
	case transcript.MessageLine:
		switch {
		case b.Role == transcript.RoleAssistant:
			h.decision = ""
		case b.Kind == transcript.TypeUser && b.Queued != "":
			h.running = true
		}
	case transcript.Interrupt:
		h.asked = h.asked || b.Ended == ""
	case transcript.Decision:
		h.decide(e, b)
	}
}

func (h *suspension) decide(e transcript.Entry, d transcript.Decision) {
	call := d.Call + "\n" + d.CallID
	at := slices.Index(h.held, call)
	switch {
	case d.Verdict == transcript.Hold && at < 0:
		h.held = append(h.held, call)
	case d.Verdict != transcript.Hold && at >= 0:
		h.held = slices.Delete(h.held, at, at+1)
		h.decision = e.ID
	}
}

func suspended(ctx context.Context, s *session.Session) (h suspension, err error) {
	text, err := lastDrained(ctx, s)
	if err != nil || text.ID == "" {
		return h, err
	}
	from, err := turnOf(ctx, s, text.ID)
	if err != nil {
		return h, err
	}
	t := newTail("")
	for e, err := range s.Entries(ctx, from) {
		if err != nil {
			return h, err
		}
		h.add(e)
		if slices.ContainsFunc(t.add(e), func(f Frame) bool { return f.Kind == frameEnd }) {
			h = suspension{}
		}
	}
	if !h.running {
		return suspension{}, nil
	}
	return h, nil
}
