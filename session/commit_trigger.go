package session

import (
	"context"
	"errors"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// CommitTrigger says when [Session.AfterTurn] commits: when what was said since the
// last commit reaches one of the limits. Rewound messages count. The zero value is
// never.
type CommitTrigger struct {
	Messages int // texts of the user and answers
	Tokens   int // by estimate
	// Idle is how long nothing was said: between two of the messages, or since the
	// last one. A program that is to notice this without another message calls
	// AfterTurn from time to time.
	Idle time.Duration
}

// uncommitted counts what was said since the last commit, for the trigger.
type uncommitted struct {
	commit           string        // entry ID of the last commit
	next             driver.Cursor // what is in front of it was counted
	messages, tokens int
	last             time.Time
	idle             time.Duration // the longest time without a message
}

// commitIfDue commits if the trigger of the store says so.
func (s *Session) commitIfDue(ctx context.Context) error {
	if s.store.opts.CommitTrigger == (CommitTrigger{}) {
		return nil
	}
	due := false
	err := s.view(ctx, opCommit, func(v *View) error {
		err := v.t.countUncommitted(ctx)
		due = err == nil && v.t.uncommitted.due(s.store.opts.CommitTrigger, s.store.opts.Now())
		return err
	})
	if err == nil && due {
		_, err = s.Commit(ctx, nil)
	}
	return err
}

func (u *uncommitted) due(t CommitTrigger, now time.Time) bool {
	return u.messages > 0 && (t.Messages > 0 && u.messages >= t.Messages ||
		t.Tokens > 0 && u.tokens >= t.Tokens ||
		t.Idle > 0 && max(u.idle, now.Sub(u.last)) >= t.Idle)
}

// countUncommitted counts what was added since the last time. The caller holds s.mu.
func (s *state) countUncommitted(ctx context.Context) error {
	u, last := s.uncommitted, s.fold.Standing().Commit
	copies := 0
	if u == nil || u.commit != last.Entry || u.next > s.next {
		u = &uncommitted{commit: last.Entry}
		if last.LastEntry != "" {
			p, err := locate(s.scan(ctx), last.LastEntry)
			if err != nil && !errors.Is(err, ErrNoEntry) {
				return err
			}
			u.next = p.end
		}
	}
	add := *u
	for rec, err := range until(s.scan(ctx), s.next)(u.next, driver.Forward) {
		if err != nil {
			return err
		}
		if copies > 0 {
			copies--
			continue
		}
		switch b := rec.Entry.Body.(type) {
		case transcript.Header:
			copies = b.Base.Lines
		case transcript.Fragment:
			add.message(rec.Entry, b, s.opts)
		}
	}
	add.next = s.next
	s.uncommitted = &add
	return nil
}

func (u *uncommitted) message(e transcript.Entry, f transcript.Fragment, opts *Options) {
	if opts.CommitTrigger.Tokens > 0 {
		u.tokens += opts.Counter.Count("", nil, []transcript.Message{f.Message()})
	}
	if f.Of != "" || f.Kind != transcript.TypeUser && f.Kind != transcript.TypeAssistant {
		return
	}
	u.messages++
	if !u.last.IsZero() {
		u.idle = max(u.idle, e.Time.Sub(u.last))
	}
	u.last = e.Time
}
