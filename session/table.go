package session

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// state is the cached state of a session. All handles of the session share it.
type state struct {
	store *Store
	ref   Ref

	users int           // guarded by the table
	place *list.Element // in the table's order

	compacting chan struct{} // holds a value while a compaction runs
	queue      queue         // of appends
	stale      atomic.Bool   // the lines were replaced or removed: read the session again

	rowDue atomic.Bool // the index may lack an append of this process

	mu sync.Mutex // guards the fields below; not held while the driver appends
	reader
	wrote   driver.Cursor // the end of the last append of this process
	wroteAt time.Time     // the time of its entries
	rowAt   time.Time     // wroteAt when this process put a row last; before that, the last message in the row that it found
	fresh   []fresh       // appends of this process that the reader was not given yet
	known   driver.Cursor // the end as the reader and fresh show it; Anywhere after a conflict
}

// fresh is one or more batches that this process has appended.
type fresh struct {
	driver.Result
	entries []transcript.Entry
}

// reset forgets the lines read, so that the next call reads the session again.
// The caller holds s.mu.
func (s *state) reset() { s.reader, s.fresh = newReader(&s.store.opts), nil }

// absorb gives the reader the appends of this process, so that no append waits for
// the fold. The caller holds s.mu.
func (s *state) absorb() {
	if s.stale.Swap(false) {
		s.reset()
	}
	for _, b := range s.fresh {
		if err := s.own(b.Result, b.entries); err != nil {
			s.reset() // the next read reports it
		}
	}
	clear(s.fresh)
	s.fresh, s.known = s.fresh[:0], s.next
}

// scan returns the function that reads the transcript.
func (s *state) scan(ctx context.Context) scan { return s.store.scan(ctx, s.ref) }

func (st *Store) scan(ctx context.Context, ref Ref) scan {
	return func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		return st.drv.Scan(ctx, ref, from, dir, nil)
	}
}

// sync reads all appends since the last time, by any process. The caller holds
// s.mu.
func (s *state) sync(ctx context.Context) error { return s.syncFrom(ctx, false) }

// syncFrom is sync; if whole is set and not every line was read, it reads all of
// them.
func (s *state) syncFrom(ctx context.Context, whole bool) (err error) {
	s.absorb()
	if whole && s.from > 0 {
		s.reset()
	}
	for tries := range 3 { // another rewind may come in each time; the last try reads every line
		if err = s.readOn(ctx, whole || tries == 2); !errors.Is(err, errRewound) {
			break
		}
		s.reset()
	}
	return err
}

// readAll is sync and makes sure that all lines were read, not only those that
// the history needs. The caller holds s.mu.
func (s *state) readAll(ctx context.Context) error { return s.syncFrom(ctx, true) }

// catchUp makes sure that the appends of this process were read. The caller
// holds s.mu.
func (s *state) catchUp(ctx context.Context) error {
	s.absorb()
	if s.fold == nil || s.next < s.wrote {
		return s.sync(ctx)
	}
	return nil
}

// readOn begins reading if nothing was read yet, and reads up to the end.
func (s *state) readOn(ctx context.Context, whole bool) (err error) {
	first := s.fold == nil
	defer func() {
		// Half of a beginning cannot be continued, and unknown entries must not
		// be skipped.
		if err != nil && (first || errors.Is(err, ErrNewerFormat)) {
			s.reset()
		}
	}()
	if first {
		if err := s.start(ctx, whole); err != nil {
			return err
		}
	}
	err = s.readLines(s.scan(ctx))
	if s.known = s.next; err != nil {
		return err
	}
	if first && s.version == 0 && s.row.LastID == "" {
		return errors.New("no entry of a transcript is in it: nothing was changed; inspect it and restore it from a copy, or delete the session")
	}
	return nil
}

// start begins reading.
func (s *state) start(ctx context.Context, whole bool) error {
	row, err := s.store.drv.Get(ctx, s.ref)
	if err != nil {
		return err
	}
	row.ID, row.Agent = s.ref.ID, s.ref.Agent
	if s.rowAt.IsZero() {
		s.rowAt = row.UpdatedAt
	}
	if err := s.begin(s.scan(ctx), row, whole); err != nil || s.counted <= s.next {
		return err
	}
	s.reset() // the row is about lines that the transcript lacks
	return s.begin(s.scan(ctx), driver.Row{ID: row.ID, Agent: row.Agent, Key: row.Key, Gen: row.Gen}, whole)
}

var errNoHeader = errors.New("its header is missing, so it can be read and not appended to: nothing was written; restore its first line")

// table holds the states of the sessions in use and of those used lately.
// Handles find their state here.
type table struct {
	store *Store

	mu     sync.Mutex // guards the fields below
	states map[Ref]*state
	order  *list.List // of *state: among idle ones, the one released last comes first
	unused int        // the number of idle ones
}

func newTable(st *Store) *table {
	return &table{store: st, states: map[Ref]*state{}, order: list.New()}
}

// acquire returns the state of a session for use until release.
func (t *table) acquire(ref Ref) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[ref]
	switch {
	case s == nil:
		s = &state{
			store: t.store, ref: ref, reader: newReader(&t.store.opts), compacting: make(chan struct{}, 1),
		}
		t.states[ref] = s
		s.place = t.order.PushFront(s)
	case s.users == 0:
		t.unused--
	}
	s.users++
	return s
}

// has reports whether a session is in the table.
func (t *table) has(ref Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[ref] != nil
}

// release ends the use of a state. A stale one leaves the table. If too many are unused,
// so does the one released first, and its row is put.
func (t *table) release(s *state) {
	t.mu.Lock()
	s.users--
	var left *state
	if s.users == 0 {
		t.order.MoveToFront(s.place)
		switch t.unused++; {
		case s.stale.Load():
			t.remove(s)
		case t.unused > t.store.opts.CachedSessions:
			left = t.oldest()
		}
	}
	t.mu.Unlock()
	if left != nil {
		t.store.putRow(context.Background(), left, false)
	}
}

// oldest drops the state that was released first. The caller holds t.mu.
func (t *table) oldest() *state {
	for e := t.order.Back(); e != nil; e = e.Prev() {
		if last, ok := e.Value.(*state); ok && last.users == 0 {
			t.remove(last)
			return last
		}
	}
	return nil
}

// remove drops a state that is not in use. The caller holds t.mu.
func (t *table) remove(s *state) {
	t.unused--
	t.order.Remove(s.place)
	delete(t.states, s.ref)
}

// due returns the states of an agent, or of all agents if agent is empty, with
// a row to put.
func (t *table) due(agent string) (all []*state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.states {
		if s.rowDue.Load() && (agent == "" || s.ref.Agent == agent) {
			all = append(all, s)
		}
	}
	return all
}

// forget has a session read again. A state in use stays that of its session, so that there
// is one queue.
func (t *table) forget(ref Ref) {
	s := t.acquire(ref)
	s.stale.Store(true)
	t.release(s)
}

// alone calls do, which may replace or remove the lines of sessions, while no append of
// this process to one of them is under way: each is decided over the lines before or over
// those after it. Refs are sorted.
func (t *table) alone(ctx context.Context, refs []Ref, do func() error) error {
	if len(refs) == 0 {
		return do()
	}
	s := t.acquire(refs[0])
	defer t.release(s)
	if _, err := s.queue.join(&job{ctx: ctx, alone: true}); err != nil {
		return err
	}
	defer func() {
		s.stale.Store(true)
		s.queue.leave(nil)
	}()
	return t.alone(ctx, refs[1:], do)
}
