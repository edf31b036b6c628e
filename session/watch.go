package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// If its driver cannot watch, a follower polls, less often the less happens.
const (
	pollSoon = 10 * time.Millisecond
	pollLate = 500 * time.Millisecond
)

// A bell wakes a loop that waits for changes.
type bell struct {
	rang  chan struct{} // capacity 1
	stop  func()
	polls atomic.Bool // nothing rings: look again after pause
	pause time.Duration
}

// watch returns a bell that rings after the session has changed, or any if ref
// is zero. Changed is called first and must not wait; it is not called if the
// bell polls.
func (st *Store) watch(ref Ref, changed func(Ref)) *bell {
	b := &bell{rang: make(chan struct{}, 1), stop: func() {}, pause: pollSoon}
	w, ok := st.drv.(driver.Watcher)
	if !ok {
		b.polls.Store(true)
		return b
	}
	stop, err := w.Watch(ref, func(ref Ref, err error) {
		if err == nil {
			changed(ref)
		} else {
			b.polls.Store(true) // and the next look shows whether the store was closed
		}
		select {
		case b.rang <- struct{}{}:
		default:
		}
	})
	if err != nil {
		b.polls.Store(true)
		return b
	}
	b.stop = stop
	return b
}

// wait returns when it is time to look again. busy is set if the last look found
// something.
func (b *bell) wait(ctx context.Context, busy bool) error {
	var tick <-chan time.Time
	if b.polls.Load() {
		if b.pause = min(2*b.pause, pollLate); busy {
			b.pause = pollSoon
		}
		timer := time.NewTimer(b.pause)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-b.rang:
	case <-tick:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
