package session

import (
	"context"
	"errors"
	"io/fs"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/session/internal/replay"
)

// View is a session as it stands: with every line that any process has appended.
// It is valid inside the function that [Session.View] or [Session.Update] calls
// with it, and only there.
type View struct {
	s   *Session
	t   *live.State
	ctx context.Context //nolint:containedctx // of the call that the View belongs to
}

// View calls f with the present session and holds the lock of the session in
// this process during the call. So f should copy the values that it needs and
// leave longer work for afterwards. f must not call a method of the session or
// of its handles, except [Session.Scan]: it would wait for itself.
//
// An error of f is returned with the name of the session. If f panics, the session
// stays usable.
func (s *Session) View(ctx context.Context, f func(v *View) error) error {
	return s.view(ctx, "read", f)
}

// view is View for an operation.
func (s *Session) view(ctx context.Context, op string, f func(v *View) error) error {
	t := s.store.table.Acquire(ctx, s.ref)
	defer s.store.table.Release(t)
	return s.locked(ctx, op, t, func() error {
		if err := t.Sync(ctx); err != nil {
			return err
		}
		if err := live.Shown(s.store.owner, t.Owner(), nil); err != nil {
			return err
		}
		return f(&View{s: s, t: t, ctx: ctx})
	})
}

// locked calls f with the lock of a state and then tells the observer about damage
// and repairs that were found.
func (s *Session) locked(ctx context.Context, op string, t *live.State, f func() error) error {
	err := t.Do(f)
	if err == nil && s.store.opts.Observe == nil {
		return nil
	}
	return s.store.done(ctx, op, s.ref, err, newsOf(t.TakeNews())...)
}

// open returns a handle on a session that it has read.
func (st *Store) open(ctx context.Context, op string, row driver.Row) (*Session, error) {
	s := &Session{st, row.Ref()}
	err := s.view(ctx, op, func(*View) error { return nil })
	if errors.Is(err, ErrReplaced) && !errors.Is(err, fs.ErrNotExist) { // the state was of an earlier session with the same ID
		err = s.view(ctx, op, func(*View) error { return nil })
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Fold returns the fold of the lines since the last compaction, or of all lines
// without one. It must only be read: History, Pending, Standing, Head, Turns.
func (v *View) Fold() *rebuild.Fold { return v.t.Fold }

// End returns the place after the last line that was read.
func (v *View) End() int64 { return int64(v.t.Next) }

// Info describes the session. After an index was lost it reads the lines that the
// row lacks, once.
func (v *View) Info() (Info, error) {
	row, err := v.row()
	if err != nil {
		return Info{}, err
	}
	return infoOf(row, v.s.store.opts.Now), nil
}

// row returns the row of the session as it stands.
func (v *View) row() (driver.Row, error) {
	row, err := v.t.Row(v.ctx)
	if err != nil {
		return row, err
	}
	current, err := v.s.store.drv.Load(v.ctx, row.KeyRef(), nil)
	if row.Current = err == nil && current.ID == row.ID; !row.Current {
		known, err := v.s.store.drv.Get(v.ctx, row.Ref())
		row.Archived = err == nil && known.Archived
	}
	return row, nil
}

// readTo makes sure that the fold includes the line of an entry, if there is
// one.
func (v *View) readTo(entryID string) error {
	if v.t.Fold.Has(entryID) {
		return nil
	}
	return v.t.ReadAll(v.ctx)
}

// replacedTries is how often in a row a read is tried because the transcript
// was replaced. After that it has lost its place.
const replacedTries = 4

// turnEnded puts the row of the session.
func (s *Session) turnEnded(ctx context.Context) {
	t := s.store.table.Acquire(ctx, s.ref)
	defer s.store.table.Release(t)
	t.PutRow(ctx, true)
	s.store.tell(ctx, s.ref)
}

// Where returns the places of entries in the history. Entries that are not in
// the transcript are not in the map.
//
// If the session is in memory with all of the entries, that is enough. Otherwise Where
// reads the transcript, but decodes little more than IDs and types, and may keep them for
// the next call. So it is not a method of [View]: reading a long transcript takes longer
// than the lock of the session may be held.
func (s *Session) Where(ctx context.Context, entryIDs ...string) (where map[string]rebuild.Where, err error) {
	if s.store.table.Has(s.ref) {
		all := false
		err = s.View(ctx, func(v *View) error {
			where, all = replay.PlacesIn(v.t.Fold, entryIDs)
			all = all || v.t.Whole()
			return nil
		})
		if err == nil && all {
			return where, nil
		}
	}
	if err = s.store.check(ctx, s.ref); err == nil {
		where, err = s.store.table.Places(ctx, s.ref, entryIDs)
	}
	return where, s.store.wrap("read", s.ref, err)
}

// where is Session.Where for the owner of the lock.
func (v *View) where(entryIDs []string) (map[string]rebuild.Where, error) {
	if where, all := replay.PlacesIn(v.t.Fold, entryIDs); all || v.t.Whole() {
		return where, nil
	}
	return v.s.store.table.Places(v.ctx, v.s.ref, entryIDs)
}
