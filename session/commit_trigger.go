package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// CommitTrigger says when [Commits] commits: when what was said since the last commit
// reaches one of the limits. Rewound messages count. The zero value is
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

// maxCounted is for how many sessions Commits keeps what it has counted.
const maxCounted = 1024

// Commits returns a function for the [Options].AfterTurn of one store, which calls
// [Session.Commit] if the trigger says so.
func Commits(trigger CommitTrigger, opts *CommitOptions) func(ctx context.Context, s *Session) error {
	var mu sync.Mutex // guards counted
	counted := map[Ref]uncommitted{}
	return func(ctx context.Context, s *Session) error {
		if trigger == (CommitTrigger{}) {
			return nil
		}
		due := false
		err := s.view(ctx, opCommit, func(v *View) error {
			mu.Lock()
			u := counted[s.ref]
			mu.Unlock()
			u, err := v.t.countUncommitted(ctx, u, trigger)
			if err != nil {
				return err
			}
			due = u.due(trigger, s.store.opts.Now())
			mu.Lock()
			defer mu.Unlock()
			if len(counted) >= maxCounted {
				clear(counted)
			}
			counted[s.ref] = u
			return nil
		})
		if err == nil && due {
			_, err = s.Commit(ctx, opts)
		}
		return err
	}
}

func (u *uncommitted) due(t CommitTrigger, now time.Time) bool {
	return u.messages > 0 && (t.Messages > 0 && u.messages >= t.Messages ||
		t.Tokens > 0 && u.tokens >= t.Tokens ||
		t.Idle > 0 && max(u.idle, now.Sub(u.last)) >= t.Idle)
}

// countUncommitted adds what came since u was counted. The caller holds s.mu.
func (s *state) countUncommitted(ctx context.Context, u uncommitted, trigger CommitTrigger) (uncommitted, error) {
	last, copies := s.fold.Standing().Commit, 0
	if u.commit != last.Entry || u.next > s.next {
		u = uncommitted{commit: last.Entry}
		if last.LastEntry != "" {
			p, err := locate(s.scan(ctx), last.LastEntry)
			if err != nil && !errors.Is(err, ErrNoEntry) {
				return u, err
			}
			u.next = p.end
		}
	}
	for rec, err := range until(s.scan(ctx), s.next)(u.next, driver.Forward) {
		if err != nil {
			return u, err
		}
		if copies > 0 {
			copies--
			continue
		}
		switch b := rec.Entry.Body.(type) {
		case transcript.Header:
			copies = b.Base.Lines
		case transcript.Fragment:
			u.message(rec.Entry, b, trigger, s.opts)
		}
	}
	u.next = s.next
	return u, nil
}

func (u *uncommitted) message(e transcript.Entry, f transcript.Fragment, trigger CommitTrigger, opts *Options) {
	if trigger.Tokens > 0 {
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
