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
	unused *list.List // of *state, the latest first
}

func newTable(st *Store) *table {
	return &table{store: st, states: map[Ref]*state{}, unused: list.New()}
}

// acquire returns the state of a session for use until release.
func (t *table) acquire(ref Ref) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[ref]
	if s == nil {
		s = newState(t.store, ref)
		t.states[ref] = s
	}
	if s.unused != nil {
		t.unused.Remove(s.unused)
		s.unused = nil
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
	s.unused = t.unused.PushFront(s)
	if t.unused.Len() <= t.store.opts.CachedSessions {
		return
	}
	if last, ok := t.unused.Remove(t.unused.Back()).(*state); ok {
		delete(t.states, last.ref)
	}
}

// forget drops what is known about a session.
func (t *table) forget(ref Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.states[ref]; s != nil {
		if s.unused != nil {
			t.unused.Remove(s.unused)
			s.unused = nil
		}
		delete(t.states, ref)
	}
}
