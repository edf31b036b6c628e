package live

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// A State is a session in memory. All handles of the session share it.
type State struct {
	o   *Options
	ref driver.Ref

	users int           // guarded by the table: calls of Acquire without their Release
	place *list.Element // in the table's order, as long as the state is in the table

	compacting chan struct{} // holds a value while a compaction runs
	queue      queue         // of appends
	stale      atomic.Bool   // read the session again: set by Forget, cleared by absorb
	rowDue     atomic.Bool   // the index may lack an append: set by RowDue, cleared by takeRow

	mu sync.Mutex // guards the fields below; not held while the driver appends
	replay.Reader
	wrote   driver.Cursor // the end of the last append of this process: set by appended
	wroteAt time.Time     // the time of its entries
	rowAt   time.Time     // the same for the row in the index: set by start and takeRow
	fresh   []fresh       // appends after the lines read: added by appended, taken by absorb, dropped by reset
}

// fresh is one or more batches that this process has appended.
type fresh struct {
	driver.Result
	entries []transcript.Entry
}

// tentative reports whether the state belongs to one call, and never was in the table.
func (s *State) tentative() bool { return s.place == nil }

// Do calls f with the state locked.
func (s *State) Do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absorb()
	return f()
}

// TakeNews returns the damage and repairs found since the last call, even in appends of
// this process.
func (s *State) TakeNews() (news []replay.News) {
	_ = s.Do(func() error {
		news = s.Reader.TakeNews()
		return nil
	})
	return news
}

// PlaceOf is [replay.Reader.PlaceOf] with the lock.
func (s *State) PlaceOf(key string) (at driver.Cursor, held *transcript.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Reader.PlaceOf(key)
}

// Forget makes the next call read the session again.
func (s *State) Forget() { s.stale.Store(true) }

// Compact waits until no other compaction of this process runs on the session, and keeps
// others out until free is called.
func (s *State) Compact(ctx context.Context) (free func(), err error) {
	select {
	case s.compacting <- struct{}{}:
		return func() { <-s.compacting }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reset forgets the lines read, so that the next call reads the session again.
// The caller holds s.mu.
func (s *State) reset() { s.Reader, s.fresh = replay.New(&s.o.Options), nil }

// absorb gives the reader the appends of this process, so that no append waits for
// the fold. The caller holds s.mu.
func (s *State) absorb() {
	if s.stale.Swap(false) {
		s.reset()
	}
	for _, b := range s.fresh {
		if err := s.Own(b.Result, b.entries); err != nil {
			s.reset() // the next read reports it
		}
	}
	clear(s.fresh)
	s.fresh = s.fresh[:0]
}

// end returns the end of the session as the reader and fresh show it. The caller holds
// s.mu.
func (s *State) end() driver.Cursor {
	if n := len(s.fresh); n > 0 {
		return s.fresh[n-1].End
	}
	return s.Next
}

// Scan returns the function that reads the transcript.
func (s *State) Scan(ctx context.Context) replay.Scan { return scanOf(ctx, s.o.Driver, s.ref) }

// scanOf returns the function that reads a transcript of a driver.
func scanOf(ctx context.Context, drv driver.Driver, ref driver.Ref) replay.Scan {
	return func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		return drv.Scan(ctx, ref, from, dir, nil)
	}
}

// The callers of the next methods hold the lock, in the function that Do calls.

// Sync reads all appends since the last time, by any process.
func (s *State) Sync(ctx context.Context) error { return s.syncFrom(ctx, false) }

// syncFrom is Sync; if whole is set and not every line was read, it reads all of
// them.
func (s *State) syncFrom(ctx context.Context, whole bool) (err error) {
	for tries := range 3 { // another rewind may come in each time; the last try reads every line
		s.absorb()
		if whole && !s.Whole() {
			s.reset()
		}
		err = s.readOn(ctx, whole || tries == 2)
		switch {
		case errors.Is(err, replay.ErrRewound):
			s.reset()
		case err != nil || !s.stale.Load():
			return err
		default: // another call has learned of a replacement
			err = driver.ErrReplaced
		}
	}
	return err
}

// ReadAll is Sync and makes sure that all lines were read, not only those that the history
// needs.
func (s *State) ReadAll(ctx context.Context) error { return s.syncFrom(ctx, true) }

// catchUp makes sure that the appends of this process were read. The caller
// holds s.mu.
func (s *State) catchUp(ctx context.Context) error {
	s.absorb()
	if s.Fold == nil || s.Next < s.wrote {
		return s.Sync(ctx)
	}
	return nil
}

// readOn reads to the end of the session. It calls start first if nothing has been
// read yet.
func (s *State) readOn(ctx context.Context, whole bool) (err error) {
	first := s.Fold == nil
	defer func() {
		// A failed beginning cannot be continued, nor may unknown entries be
		// skipped.
		if err != nil && (first || errors.Is(err, rebuild.ErrNewerFormat)) {
			s.reset()
		}
	}()
	if first {
		if err := s.start(ctx, whole); err != nil {
			return err
		}
	}
	if err := s.ReadOn(s.Scan(ctx)); err != nil {
		return err
	}
	if first && s.Empty() {
		return errors.New("it holds no entry of a transcript: nothing was changed; inspect it and restore it from a copy, or delete the session")
	}
	return nil
}

// start begins reading.
func (s *State) start(ctx context.Context, whole bool) error {
	row, err := s.o.Driver.Get(ctx, s.ref)
	if err != nil {
		return err
	}
	row.ID, row.Agent = s.ref.ID, s.ref.Agent
	if s.rowAt.IsZero() {
		s.rowAt = row.UpdatedAt
	}
	return s.Begin(s.Scan(ctx), row, whole)
}

// Reread is Sync after the lines may have been replaced.
func (s *State) Reread(ctx context.Context) error {
	s.reset()
	return s.Sync(ctx)
}

// Row returns the row of the session as it was read. It reads the lines that the row lacks.
func (s *State) Row(ctx context.Context) (driver.Row, error) { return s.Reader.Row(s.Scan(ctx)) }

// Writable returns the reason why the session takes no appends, if there is one.
func (s *State) Writable(ctx context.Context) error {
	if s.Fold == nil {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	if s.o.ReadOnly {
		return driver.ErrReadOnly
	}
	return s.Reader.Writable()
}
