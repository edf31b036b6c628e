package filelog

import (
	"context"
	"runtime"
	"time"
)

// The kernel locks are polled: waiting in the kernel would keep a thread and
// could not be cancelled.
const (
	// eagerTries is how often a lock is tried again before the first sleep: others
	// hold the append lock for one write, which is shorter than any sleep.
	eagerTries = 32
	minWait    = 50 * time.Microsecond
	maxWait    = 5 * time.Millisecond
)

// poll calls try until it succeeds or fails, the context is done, or ended is
// closed.
func poll(ctx context.Context, ended <-chan struct{}, try func() (bool, error)) error {
	wait := minWait
	for tries := 0; ; tries++ {
		if ok, err := try(); ok || err != nil {
			return err
		}
		if tries < eagerTries {
			runtime.Gosched()
			continue
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return busy(ctx)
		case <-ended:
			return ErrClosed
		}
		wait = min(wait*3/2, maxWait)
	}
}
