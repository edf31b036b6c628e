package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Ref names a session: its ID is unique within its agent.
type Ref = driver.Ref

// Session is a handle on one conversation. It is safe for several goroutines,
// costs nothing and need not be closed. Handles stay good until the session is
// deleted or the store is closed.
//
// Methods without a context answer from what this process read or wrote last;
// the others first read what any process has added since.
type Session struct {
	store *Store
	ref   Ref
}

// use calls f with the state, which is locked. If f panics, as a Counter of the
// application can, the state stays usable.
func (s *Session) use(ctx context.Context, op string, f func(*state) error) error {
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	news, err := t.locked(f)
	if err == nil && s.store.opts.Observe == nil {
		return nil
	}
	return s.store.done(ctx, op, s.ref, err, news...)
}

// useAll is use with a state that has what any process has appended.
func (s *Session) useAll(ctx context.Context, op string, f func(*state) error) error {
	return s.use(ctx, op, func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		return f(t)
	})
}

// read is useAll for what cannot fail.
func (s *Session) read(ctx context.Context, op string, f func(*state)) error {
	return s.useAll(ctx, op, func(t *state) error {
		f(t)
		return nil
	})
}

// readRow is read with a row that has every line.
func (s *Session) readRow(ctx context.Context, op string, f func(*state)) error {
	return s.useAll(ctx, op, func(t *state) error {
		err := t.fill(t.scan(ctx))
		if err == nil {
			f(t)
		}
		return err
	})
}

// peek calls f with the row as this process saw the session last, unless that cannot be
// read: the next call that returns an error says why.
func (s *Session) peek(ctx context.Context, f func(*state, driver.Row)) {
	_ = s.use(ctx, "read", func(t *state) error {
		err := t.catchUp(ctx)
		if err == nil {
			err = t.fill(t.scan(ctx))
		}
		if err == nil {
			f(t, t.describe())
		}
		return err
	})
}

// locked calls f with the state locked, and returns what was found since the last
// time.
func (s *state) locked(f func(*state) error) (news []Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absorb()
	err = f(s)
	news, s.news = s.news, nil
	return news, err
}

// Ref returns the name of the session.
func (s *Session) Ref() Ref { return s.ref }

// ID returns the ID of the session.
func (s *Session) ID() string { return s.ref.ID }

// History returns the messages of the next model request: the canonical history
// of the session, by the rules of package rebuild. The slices are the caller's; the
// blocks are shared and must not be modified. While calls are running it has an
// error result for each that has no result yet. Media that are kept as blobs are
// read, see [Options].Blobs.
func (s *Session) History(ctx context.Context) (h rebuild.History, err error) {
	if err = s.read(ctx, "read", func(t *state) { h = t.fold.History() }); err == nil {
		err = s.inlineHistory(ctx, &h)
	}
	return h, err
}

// Head returns the ID of the last message, compaction or rewind entry, for
// [Cond]; [NoHead] if there is none.
func (s *Session) Head(ctx context.Context) (id string, err error) {
	err = s.read(ctx, "read", func(t *state) { id = t.head() })
	return id, err
}

// FullHistory returns the history as if nothing had ever been compacted or
// clipped. It reads the whole transcript.
func (s *Session) FullHistory(ctx context.Context) (rebuild.History, error) {
	fold := rebuild.New(&rebuild.Options{Full: true})
	for b, err := range transcript.Batches(s.Records(ctx)) {
		if err != nil {
			return rebuild.History{}, err
		}
		if err = fold.Add(b); err != nil {
			return rebuild.History{}, s.store.wrap("read", s.ref, err)
		}
	}
	h := fold.History()
	return h, s.inlineHistory(ctx, &h)
}

// Entries yields the entries of the transcript in order, the rewound and the
// compacted ones and the header included. It may be ranged over several times
// and keeps no more lines in memory than [transcript.Scan]. Damage is left out: see
// [Session.Health].
func (s *Session) Entries(ctx context.Context) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for rec, err := range s.Records(ctx) {
			if (err != nil || rec.HasEntry()) && !yield(rec.Entry, err) {
				return
			}
		}
	}
}

// Health is the damage in a transcript and the repairs that its history needs.
type Health struct {
	Repairs rebuild.Report      `json:"repairs"`
	Damage  []transcript.Damage `json:"damage"`
}

// Health returns the state of the transcript. It reads all of it.
func (s *Session) Health(ctx context.Context) (h Health, err error) {
	err = s.use(ctx, "read", func(t *state) error {
		if err := t.readAll(ctx); err != nil {
			return err
		}
		h.Repairs = t.fold.Report()
		h.Damage = append(h.Damage, t.damage...)
		return nil
	})
	return h, err
}

// Turns returns the number of turns of the conversation, those before a
// compaction included.
func (s *Session) Turns() (n int) {
	ctx := context.Background()
	_ = s.use(ctx, "read", func(t *state) error { // the next call that returns an error says why
		err := t.catchUp(ctx)
		if t.fold != nil {
			n = t.fold.Turns()
		}
		return err
	})
	return n
}

// Pending says what is unfinished at the end of the history, so that an
// application can resume or close it after a restart. While calls are running
// they are pending too.
func (s *Session) Pending(ctx context.Context) (p rebuild.Pending, err error) {
	err = s.read(ctx, "read", func(t *state) { p = t.fold.Pending() })
	return p, err
}

// Rewind takes the history back to what it was right after an entry. Rewound
// entries stay in the transcript; rewinding to one of them undoes the rewind. The session's own ID stands for the beginning.
func (s *Session) Rewind(ctx context.Context, entryID string) error {
	_, err := s.Append(ctx, transcript.Rewind{To: entryID})
	return err
}

// RewindTurns takes back the last n turns: the history ends before the n-th
// user text from the end that started a turn. If a compaction stands for that
// text, the compaction is taken back too. It fails, and names the entry, if no
// rewind gives that history: an answer that was written behind the text is shown
// in front of it when its request did not have it.
func (s *Session) RewindTurns(ctx context.Context, n int) error {
	_, err := s.appendOn(ctx, "rewind", nil, func(t *state, cond *driver.Cond) ([]transcript.Item, error) {
		if err := t.readAll(ctx); err != nil {
			return nil, err
		}
		to, err := t.fold.BeforeTurn(n)
		if err != nil {
			return nil, fmt.Errorf("take back %d turns: nothing was written: %w", n, err)
		}
		cond.Head = t.head()
		return []transcript.Item{transcript.Rewind{To: to}}, nil
	})
	return err
}

// MakeCurrent makes the session the current one of its key.
func (s *Session) MakeCurrent(ctx context.Context) error {
	_, err := s.store.drv.SetCurrent(ctx, s.ref, func(gen int64) driver.Line {
		e := transcript.Entry{ID: newID(), Time: s.store.opts.Now(), Body: transcript.Current{Gen: gen}}
		return lineOf(s.store.Sealed(e))
	})
	s.store.looks.Add(1)
	return s.store.done(ctx, "make current", s.ref, err)
}

// SetMeta changes what describes the session; nil fields stay as they are. A
// title set here is never replaced by an automatic one. The index has the change
// when SetMeta returns.
func (s *Session) SetMeta(ctx context.Context, m transcript.Meta) error {
	if m.Title == nil && m.Owner == nil && m.Labels == nil && m.TTL == nil && m.Pinned == nil {
		return s.store.wrap("set meta", s.ref, errors.New("no field is set: nothing was written"))
	}
	_, err := s.Append(ctx, m)
	return err
}

// Flush returns when everything appended so far is on stable storage.
func (s *Session) Flush(ctx context.Context) error {
	return s.store.done(ctx, "flush", s.ref, s.store.drv.Flush(ctx, s.ref))
}
