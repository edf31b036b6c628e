package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A write is one append: the items that it is made of, and its entries once it was
// built.
type write struct {
	at    time.Time // of the entries
	items []transcript.Item
	newID func() string

	entries []transcript.Entry
	// Idempotency key, and the hash of the entries; empty if the append has none.
	idem, hash string
	cond       driver.Cond // of lines that were made elsewhere
	// foreign says that the entries were made elsewhere: they may be several batches
	// or a part of one, so that the next read finds them in the transcript.
	foreign bool
}

// build makes the entries of the items and passes them to the filters, unless the
// write has entries. No lock is held: filters may take their time.
func (s *Session) build(ctx context.Context, w *write) error {
	if len(w.entries) > 0 {
		return nil
	}
	newBatch := transcript.NewSealedBatch
	if s.store.opts.NoChecksum {
		newBatch = transcript.NewBatch
	}
	entries, err := newBatch(w.at, w.newID, w.items...)
	if err == nil {
		entries, err = s.prepared(ctx, entries)
	}
	if err == nil && w.idem != "" {
		w.hash = IdemHash(entries)
		entries, err = transcript.WithIdem(entries, w.idem, w.hash)
	}
	w.entries = entries
	return err
}

// ids returns the IDs of the entries.
func (w *write) ids() []string {
	ids := make([]string, len(w.entries))
	for i, e := range w.entries {
		ids[i] = e.ID
	}
	return ids
}

// inTurn appends a write that depends on nothing, beside others of its kind.
func (s *Session) inTurn(ctx context.Context, op string, t *state, w *write) (driver.Result, error) {
	if err := t.turns.Acquire(ctx, anyTurn); err != nil {
		return driver.Result{}, s.store.wrap(op, s.ref, err)
	}
	done := s.appendInTurn(ctx, t, w)
	return done.Result, s.told(ctx, op, t, done)
}

// appendInTurn appends and gives back the turn to write.
func (s *Session) appendInTurn(ctx context.Context, t *state, w *write) appendResult {
	defer t.turns.Release(anyTurn)
	cond, err := t.ready(ctx, s.store, w)
	if err != nil {
		return refused(err)
	}
	return s.append(ctx, t, w, cond)
}

// ready returns the condition of a write that depends on nothing, or why the session
// takes no writes.
func (s *state) ready(ctx context.Context, st *Store, w *write) (driver.Cond, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.idem != "" {
		s.absorb() // less to look for the key in
	}
	err := s.writable(ctx)
	if err == nil {
		err = st.own(s.row, nil)
	}
	return s.cond(w), err
}

// cond returns the condition that the idempotency key of a write makes. The caller
// holds s.mu.
func (s *state) cond(w *write) driver.Cond {
	cond := w.cond
	if w.idem != "" {
		cond.Idem, cond.IdemHash, cond.Since, cond.Base = w.idem, w.hash, s.from, s.next
	}
	return cond
}

// An appendResult is the outcome of an append, of which the observer is told once
// other appends can go on.
type appendResult struct {
	driver.Result
	err   error
	event Event // without a Kind if nothing was appended
}

// refused is the result of an append that was refused before it was tried.
func refused(err error) appendResult {
	return appendResult{err: err, event: Event{Kind: EventAppend}}
}

// append stores a write under a condition and records the result. The caller has a
// turn to write. If the condition has a Decide, that fills in the write.
func (s *Session) append(ctx context.Context, t *state, w *write, cond driver.Cond) (done appendResult) {
	pooled, _ := linePool.Get().(*[]driver.Line)
	lines := w.lines((*pooled)[:0])
	*pooled = lines
	defer linePool.Put(pooled)
	defer clear(lines)
	began := time.Now()
	done.Result, done.err = t.store.drv.Append(ctx, s.ref, lines, cond)
	done.event = Event{Kind: EventAppend, Took: time.Since(began), Err: done.err}
	switch {
	case done.err != nil:
		t.rowDue.Store(true) // the index may say that this process is about to append
	case !done.Repeated && len(w.entries) > 0:
		done.event.Entries, done.event.Bytes = len(w.entries), w.size()
		meta := holds(w.entries, "meta")
		if t.appended(done.Result, w) || meta {
			s.store.putRow(ctx, t, meta)
		}
	}
	return done
}

// told ends a call that appends: it tells the observer about the damage and the
// repairs that were found, and about the append, and names the session in the error.
func (s *Session) told(ctx context.Context, op string, t *state, done appendResult) error {
	if done.err == nil && s.store.opts.Observe == nil {
		return nil
	}
	err := s.store.wrap(op, s.ref, done.err)
	if s.store.opts.Observe == nil {
		return err
	}
	events := t.takeNews()
	if done.event.Kind != "" {
		done.event.Err = err
		events = append(events, done.event)
	}
	s.store.tell(ctx, s.ref, events...)
	return err
}

// linePool has lists of lines, which no driver retains.
var linePool = sync.Pool{New: func() any { return new([]driver.Line) }}

// lines appends the lines of the entries to a list.
func (w *write) lines(list []driver.Line) []driver.Line {
	for _, e := range w.entries {
		list = append(list, lineOf(e))
	}
	return list
}

// size returns the bytes of the lines, with their line breaks.
func (w *write) size() (n int) {
	for _, e := range w.entries {
		n += len(e.Line()) + 1
	}
	return n
}

// sealed returns an entry whose line has a checksum, unless [Options].NoChecksum is set
// or the line would become too long.
func (st *Store) sealed(e transcript.Entry) transcript.Entry {
	if st.opts.NoChecksum {
		return e.WithLine(e.Line())
	}
	if with := e.Sealed(); len(with.Line()) <= transcript.DefaultMaxLine {
		return with
	}
	return e.WithLine(e.Line())
}

// lineOf returns the line of an entry for the driver.
func lineOf(e transcript.Entry) driver.Line {
	return driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
}

// holds reports whether one of the entries is of one of the types.
func holds(entries []transcript.Entry, types ...string) bool {
	return slices.ContainsFunc(entries, func(e transcript.Entry) bool { return slices.Contains(types, e.Type()) })
}

// writable reports why nothing must be appended to the session, if there is a
// reason. The caller holds s.mu.
func (s *state) writable(ctx context.Context) error {
	if s.fold == nil {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	switch {
	case s.opts.ReadOnly:
		return ErrReadOnly
	case s.version == 0 && s.row.Key == "":
		return errNoHeader
	case s.version > transcript.Version:
		return fmt.Errorf("format version %d, this program knows %d: nothing was written; use a newer program: %w",
			s.version, transcript.Version, ErrNewerFormat)
	}
	return nil
}

// appended records an append of this process that has succeeded. It reports
// whether the index should have a row now.
func (s *state) appended(res driver.Result, w *write) (put bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.foreign {
		for i, e := range w.entries {
			w.entries[i] = e.WithLine(nil) // the fold does not need it
		}
		s.fresh = append(s.fresh, fresh{res, w.entries})
	}
	s.wrote = max(s.wrote, res.End)
	s.wroteAt = w.at
	if s.rowAt.IsZero() {
		s.rowAt = w.at
	}
	s.rowDue.Store(true)
	return w.at.Sub(s.rowAt) >= rowAge
}

// prepared returns entries as the filters let them be written.
func (s *Session) prepared(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	st := s.store
	if st.owner == "" && len(st.opts.Filters) == 0 {
		return entries, nil
	}
	if holds(entries, "session") { // filters would take it for that of a new session
		return nil, errors.New("a header begins a session and is not appended: nothing was written")
	}
	return st.filterWrite(ctx, s.ref, entries)
}

// LockTurn takes the turn lock of the session: in all processes one holder at a time.
// It keeps out other holders, not appends. If wait is false and the lock is held, the
// error matches [ErrBusy]; if wait is true LockTurn waits until ctx is done, and the
// error then matches both. Unlock releases the lock and brings the index up to date;
// calling it again does nothing. The lock also ends with the process.
func (s *Session) LockTurn(ctx context.Context, wait bool) (unlock func() error, err error) {
	err = s.store.check(context.WithoutCancel(ctx), s.ref)
	var release func() error
	if err == nil {
		release, err = s.store.drv.LockTurn(ctx, s.ref, wait)
	}
	if err = s.store.done(ctx, "lock turn", s.ref, err); err != nil {
		return nil, err
	}
	return func() error {
		err := release()
		s.turnEnded(context.Background())
		return s.store.wrap("end turn", s.ref, err)
	}, nil
}

// turnEnded puts the row of the session.
func (s *Session) turnEnded(ctx context.Context) {
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	s.store.putRow(ctx, t, true)
	s.store.tell(ctx, s.ref)
}
