package session

import (
	"container/list"
	"sync"
)

// table holds the state of the sessions in use, and of some that were in use
// lately. Handles find their state here, so that all share one.
type table struct {
	store *Store

	mu     sync.Mutex // guards what follows
	states map[Ref]*state
	order  *list.List // of *state: those that were released last come first, among the others those in use
	unused int        // how many of them nobody uses
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
		s = newState(t.store, ref)
		t.states[ref] = s
		s.place = t.order.PushFront(s)
	case s.users == 0:
		t.unused--
	}
	s.users++
	return s
}

func (t *table) release(s *state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users > 0 || t.states[s.ref] != s {
		return
	}
	t.order.MoveToFront(s.place)
	if t.unused++; t.unused <= t.store.opts.CachedSessions {
		return
	}
	for e := t.order.Back(); e != nil; e = e.Prev() {
		if last, ok := e.Value.(*state); ok && last.users == 0 {
			t.remove(last)
			return
		}
	}
}

// remove drops a state. The caller holds t.mu.
func (t *table) remove(s *state) {
	if s.users == 0 {
		t.unused--
	}
	t.order.Remove(s.place)
	delete(t.states, s.ref)
}

// forget drops what is known about a session.
func (t *table) forget(ref Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.states[ref]; s != nil {
		t.remove(s)
	}
}
