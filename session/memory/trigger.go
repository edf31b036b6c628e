package memory

import (
	"context"
	"sync"
	"time"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A Trigger makes [Commits] commit when the messages since the last commit
// reach one of the limits. Rewound messages count. The zero value never does.
type Trigger struct {
	Messages int // texts of the user and answers
	Tokens   int // by estimate
	// Idle is the time without a message: between two of the messages, or since
	// the last one. To notice it without another message, call AfterTurn from time
	// to time.
	Idle time.Duration
}

// uncommitted counts the messages since the last commit, for the trigger.
type uncommitted struct {
	rev              int
	next             int64 // all before it was counted
	messages, tokens int
	last             time.Time
	idle             time.Duration // longest time without a message
}

// maxCounted is the number of sessions whose counts Commits keeps.
const maxCounted = 1024

// Commits returns a function for AfterTurn in the [session.Options] of one store. It
// calls [Commit] when the trigger is reached.
func Commits(trigger Trigger, opts *CommitOptions) func(ctx context.Context, s *session.Session) error {
	now := time.Now
	if opts != nil && opts.Now != nil {
		now = opts.Now
	}
	var mu sync.Mutex // guards counted
	counted := map[session.Ref]uncommitted{}
	return func(ctx context.Context, s *session.Session) error {
		if trigger == (Trigger{}) {
			return nil
		}
		var rev int
		var end int64
		err := s.View(ctx, func(v *session.View) error {
			info, err := v.Info()
			rev, end = info.Rev, v.End()
			return err
		})
		if err != nil {
			return err
		}
		mu.Lock()
		u := counted[s.Ref()]
		mu.Unlock()
		if u.rev != rev || u.next > end {
			u = uncommitted{rev: rev}
		}
		if err := u.count(ctx, s, end, trigger); err != nil {
			return err
		}
		mu.Lock()
		if len(counted) >= maxCounted {
			clear(counted)
		}
		counted[s.Ref()] = u
		mu.Unlock()
		if u.due(trigger, now()) {
			_, err = Commit(ctx, s, opts)
		}
		return err
	}
}

func (u *uncommitted) due(t Trigger, now time.Time) bool {
	return u.messages > 0 && (t.Messages > 0 && u.messages >= t.Messages ||
		t.Tokens > 0 && u.tokens >= t.Tokens ||
		t.Idle > 0 && max(u.idle, now.Sub(u.last)) >= t.Idle)
}

// committing is the type of the lines of commits.
var committing = words.NewLiterals(`"commit"`)

// count adds the lines since the last count, up to a place. At a commit it
// starts anew.
func (u *uncommitted) count(ctx context.Context, s *session.Session, end int64, trigger Trigger) error {
	for rec, err := range accounted(ctx, s, session.ScanOptions{From: u.next, To: end}, committing) {
		c, ok := rec.Entry.Body.(transcript.Commit)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		*u = uncommitted{rev: u.rev}
		last, err := find(ctx, s, c.LastEntry)
		if err != nil {
			return err
		}
		u.next = last.End
		break
	}
	for rec, err := range s.Scan(ctx, session.ScanOptions{From: u.next, To: end, Own: u.next == 0}) {
		if err != nil {
			return err
		}
		if f, ok := rec.Entry.Body.(transcript.MessageLine); ok {
			u.message(rec.Entry, f, trigger)
		}
	}
	u.next = end
	return nil
}

func (u *uncommitted) message(e transcript.Entry, f transcript.MessageLine, trigger Trigger) {
	if trigger.Tokens > 0 {
		u.tokens += tokens.Or(nil).Count("", nil, []transcript.Message{f.Message()})
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
