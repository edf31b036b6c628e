package session

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// Follow yields the names of sessions that have changed: entries were appended,
// or the session was created, replaced or deleted, by any process. A name is a
// hint, not a log: one hint may cover many changes, some have no cause, and
// there is no cursor.
//
// The zero Ref means that anything may have changed: list the sessions. Every
// loop begins with it, so a program that lists at each zero Ref misses nothing:
//
//	for ref, err := range store.Follow(ctx) {
//		if ref == (session.Ref{}) { // list all of them
//
// The loop waits while nothing changes, and ends with an error, such as ctx.Err
// or [ErrClosed]. A slow loop delays no writer: changes are collected, each
// session once, and become a zero Ref if there are too many. Without inotify the
// loop lists the sessions from time to time and compares.
func (st *Store) Follow(ctx context.Context) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		c := changes{pending: map[Ref]bool{{}: true}}
		bell := st.watch(Ref{}, c.add)
		defer bell.stop()
		var seen map[Ref]glance // at the last poll, if the bell polls
		for {
			var err error
			if bell.polls.Load() {
				seen, err = st.compare(ctx, seen, c.add)
			}
			refs := c.take()
			for _, ref := range refs {
				if ref, ok := st.shown(ctx, ref); ok && !yield(ref, nil) {
					return
				}
			}
			if err == nil {
				err = bell.wait(ctx, len(refs) > 0)
			}
			if err != nil {
				yield(Ref{}, fmt.Errorf("session: follow: %w", err))
				return
			}
		}
	}
}

// shown returns the hint for a change of a session. A scope gives no hints about sessions
// of other owners. If the lookup fails, the session may have had any owner.
func (st *Store) shown(ctx context.Context, ref Ref) (hint Ref, ok bool) {
	if st.owner == "" || ref == (Ref{}) {
		return ref, true
	}
	row, err := st.drv.Get(ctx, ref)
	if err != nil {
		return Ref{}, true
	}
	return ref, row.Owner == st.owner
}

// maxChanges is how many changed sessions are kept for a slow loop.
const maxChanges = 1024

// changes are the sessions that have changed since the last step of the loop.
type changes struct {
	mu      sync.Mutex   // guards the field below
	pending map[Ref]bool // added by add, taken by take
}

// add notes a change. It never waits for the loop.
func (c *changes) add(ref Ref) {
	if ofLibrary(ref.Agent) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref == (Ref{}) || len(c.pending) == maxChanges {
		clear(c.pending) // a zero Ref means all
		ref = Ref{}
	}
	if !c.pending[Ref{}] {
		c.pending[ref] = true
	}
}

func (c *changes) take() (refs []Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs = slices.Collect(maps.Keys(c.pending))
	clear(c.pending)
	return refs
}

// A glance holds the compared fields of a row.
type glance struct {
	size, gen int64
	lastID    string
	created   time.Time
	archived  bool
}

// compare lists all sessions and adds those that differ from seen, which is nil
// the first time.
func (st *Store) compare(ctx context.Context, seen map[Ref]glance, add func(Ref)) (map[Ref]glance, error) {
	rows, err := st.listRows(ctx, &ListOptions{State: AnyState}, st.opts.Now)
	if err != nil {
		return nil, err
	}
	now := make(map[Ref]glance, len(seen))
	for _, row := range rows {
		now[row.Ref()] = glance{row.Size, row.Gen, row.LastID, row.CreatedAt.UTC(), row.Archived}
	}
	if seen == nil {
		add(Ref{})
		return now, nil
	}
	for ref, row := range now {
		if was, ok := seen[ref]; !ok || was != row {
			add(ref)
		}
		delete(seen, ref)
	}
	for ref := range seen {
		add(ref)
	}
	return now, nil
}
