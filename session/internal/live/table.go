package live

import (
	"container/list"
	"context"
	"iter"
	"sync"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// A Table holds the states of the sessions in use and of those used lately.
// Handles find their state here.
type Table struct {
	o *Options

	mu     sync.Mutex            // guards the fields below
	states map[driver.Ref]*State // added by Acquire, removed by remove
	order  *list.List            // of *State: among idle ones, the one released last comes first
	unused int                   // the number of idle ones, which Acquire and Release need without a walk

	outlines outlines
}

// NewTable returns an empty table.
func NewTable(o *Options) *Table {
	return &Table{o: o, states: map[driver.Ref]*State{}, order: list.New()}
}

// Acquire returns the state of a session for use until Release. If ctx is tentative, no
// other call gets it.
func (t *Table) Acquire(ctx context.Context, ref driver.Ref) *State {
	if driver.IsTentative(ctx) {
		return t.newState(ref)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[ref]
	switch {
	case s == nil:
		s = t.newState(ref)
		t.states[ref] = s
		s.place = t.order.PushFront(s)
	case s.users == 0:
		t.unused--
	}
	s.users++
	return s
}

func (t *Table) newState(ref driver.Ref) *State {
	return &State{o: t.o, ref: ref, Reader: replay.New(&t.o.Options), compacting: make(chan struct{}, 1)}
}

// Has reports whether a session is in the table.
func (t *Table) Has(ref driver.Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[ref] != nil
}

// Release ends the use of a state. A stale one leaves the table. If too many are unused,
// so does the one released first, and its row is put.
func (t *Table) Release(s *State) {
	if s.tentative() {
		return
	}
	t.mu.Lock()
	s.users--
	var left *State
	if s.users == 0 {
		t.order.MoveToFront(s.place)
		switch t.unused++; {
		case s.stale.Load():
			t.remove(s)
		case t.unused > t.o.Idle:
			left = t.oldest()
		}
	}
	t.mu.Unlock()
	if left != nil {
		left.PutRow(context.Background(), false)
	}
}

// oldest drops the state that was released first. The caller holds t.mu.
func (t *Table) oldest() *State {
	for e := t.order.Back(); e != nil; e = e.Prev() {
		if last, ok := e.Value.(*State); ok && last.users == 0 {
			t.remove(last)
			return last
		}
	}
	return nil
}

// remove drops a state that is not in use. The caller holds t.mu.
func (t *Table) remove(s *State) {
	t.unused--
	t.order.Remove(s.place)
	delete(t.states, s.ref)
}

// due returns the states of an agent, or of all agents if agent is empty, with
// a row to put.
func (t *Table) due(agent string) (all []*State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.states {
		if s.rowDue.Load() && (agent == "" || s.ref.Agent == agent) {
			all = append(all, s)
		}
	}
	return all
}

// Forget makes the next use of a session read it again. The session keeps a state that
// is in use, and with it its queue.
func (t *Table) Forget(ref driver.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.states[ref]; s != nil {
		if s.Forget(); s.users == 0 {
			t.remove(s)
		}
	}
}

// Alone calls do, which may replace or remove the lines of sessions, while no append of
// this process to one of them is under way: each is decided over the lines before do or
// after it. Refs are sorted.
func (t *Table) Alone(ctx context.Context, refs []driver.Ref, do func() error) error {
	if len(refs) == 0 {
		return do()
	}
	s := t.Acquire(context.Background(), refs[0])
	defer t.Release(s)
	if _, err := s.queue.join(&Job{Ctx: ctx, alone: true}); err != nil {
		return err
	}
	defer func() {
		s.Forget()
		s.queue.leave(nil)
	}()
	return t.Alone(ctx, refs[1:], do)
}

// PutRows is PutRow for all sessions of an agent, or of all agents if agent is
// empty. It waits once for an index that is locked, not once for each row. It does nothing
// if ctx is tentative: the states would read lines that may be undone.
func (t *Table) PutRows(ctx context.Context, agent string, fill bool) {
	if driver.IsTentative(ctx) {
		return
	}
	locked := map[string]bool{} // by agent; each has an index of its own
	for _, s := range t.due(agent) {
		if !locked[s.ref.Agent] {
			locked[s.ref.Agent] = s.PutRow(ctx, fill)
		}
	}
}

// Refresh returns the row of a session with every line, and puts it unless the store is
// read-only or ctx is tentative. If the session cannot be read, Refresh returns the known row.
func (t *Table) Refresh(ctx context.Context, known driver.Row) driver.Row {
	s, row := t.Acquire(ctx, known.Ref()), known
	defer t.Release(s)
	err := s.Do(func() (err error) {
		if err = s.Sync(ctx); err == nil {
			row, err = s.Row(ctx)
		}
		return err
	})
	if err != nil {
		return known
	}
	if !s.o.ReadOnly && !driver.IsTentative(ctx) { // a row would stay locked until the end of the transaction
		wait, cancel := context.WithTimeout(ctx, rowWait)
		defer cancel()
		_ = s.o.Driver.Put(wait, row) // else the next list refreshes it again
	}
	return row
}

// Scan returns the function that reads the transcript of a session. If the session was
// replaced, its state reads it again: a driver reports that once, and a caller may keep the
// error to itself.
func (t *Table) Scan(ctx context.Context, ref driver.Ref) replay.Scan {
	scan := scanOf(ctx, t.o.Driver, ref)
	return func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		return func(yield func(transcript.Record, error) bool) {
			for rec, err := range scan(from, dir) {
				if err != nil && IsGone(err) {
					t.Forget(ref)
				}
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// Places returns the places of entries in the history of a session by its outline, which it
// may keep for the next call.
func (t *Table) Places(ctx context.Context, ref driver.Ref, entryIDs []string) (map[string]rebuild.Where, error) {
	o := t.outlines.of(ctx, ref)
	select {
	case o.lock <- struct{}{}:
		defer func() { <-o.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	sift := func(keep driver.Keep) iter.Seq2[transcript.Record, error] {
		return t.o.Driver.Scan(ctx, ref, 0, driver.Backward, keep)
	}
	return o.Places(sift, entryIDs)
}
