package filelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// slowSyncs makes the syncs of a model wait for let, which gives them their
// error.
func slowSyncs(d *cacheDisk) (let chan error) {
	let = make(chan error)
	d.setOp(func(op string) error {
		if op == "sync" {
			return <-let
		}
		return nil
	})
	return let
}

// started starts an append and waits until it waits for a sync.
func started(l *Log, lines string) chan error {
	done := make(chan error, 1)
	go func() {
		_, _, err := l.Append(context.Background(), Lines([]byte(lines)))
		done <- err
	}()
	synctest.Wait()
	return done
}

func pending(t *testing.T, what string, calls ...chan error) {
	t.Helper()
	synctest.Wait()
	for _, c := range calls {
		select {
		case err := <-c:
			t.Fatalf("%s: a call returned %v", what, err)
		default:
		}
	}
}

// Appends wait together for the first sync that begins after their writes.
func TestSyncIsShared(t *testing.T) {
	for _, fault := range []error{nil, errFault} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newCacheDisk(t)
				l := d.create(t, SyncAlways)
				let := slowSyncs(d)
				before := d.syncs
				first := started(l, "first\n")
				var others []chan error
				var want strings.Builder
				want.WriteString(workFirst + "first\n")
				for i := range 10 {
					others = append(others, started(l, fmt.Sprintln("other", i)))
					fmt.Fprintln(&want, "other", i)
				}
				pending(t, "during the first sync", append(others, first)...)
				let <- nil
				require.NoError(t, <-first)
				pending(t, "during the second sync", others...)
				let <- fault
				for _, c := range others {
					if err := <-c; !errors.Is(err, fault) {
						t.Errorf("Append = %v, its sync %v", err, fault)
					}
				}
				require.Equal(t, 2, d.syncs-before)
				d.setOp(nil)
				require.NoError(t, l.Recover(t.Context()))
				wantDisk(t, d, want.String())
				closeAll(t, l)
			})
		})
	}
}

// Callers that wait for the next sync also get the error of a failed sync.
func TestSyncFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		let := slowSyncs(d)
		before := d.syncs
		calls := []chan error{started(l, "a\n"), started(l, "b\n"), started(l, "c\n")}
		flush := make(chan error, 1)
		go func() { flush <- l.Flush(t.Context()) }()
		calls = append(calls, flush)
		pending(t, "during the sync", calls...)
		let <- errFault
		for i, c := range calls {
			if e, ok := errors.AsType[*driver.NotDurableError](<-c); !ok || e.Refused {
				t.Errorf("call %d returned %v", i, e)
			}
		}
		require.Equal(t, 1, d.syncs-before)
		d.setOp(nil)
		require.NoError(t, l.Recover(t.Context()))
		wantDisk(t, d, workFirst+"a\nb\nc\n")
		closeAll(t, l)
	})
}

// Flush gives up with its context while it waits; an Append that has written
// does not. A call that gives up delays no other.
func TestSyncWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		let := slowSyncs(d)
		first := started(l, "first\n")
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() {
			_, _, err := l.Append(ctx, Lines([]byte("second\n")))
			second <- err
		}()
		synctest.Wait()
		var flushes []chan error
		for range 3 {
			c := make(chan error, 1)
			go func() { c <- l.Flush(ctx) }()
			flushes = append(flushes, c)
		}
		pending(t, "during the sync", append(flushes, first, second)...)
		cancel()
		for _, c := range flushes {
			if err := <-c; !errors.Is(err, context.Canceled) {
				t.Errorf("Flush = %v", err)
			}
		}
		pending(t, "after the context was done", first, second)
		let <- nil
		require.NoError(t, <-first)
		pending(t, "before its sync", second)
		let <- nil
		require.NoError(t, <-second)
		// No call waits for the next sync any more.
		first = started(l, "third\n")
		ctx, cancel = context.WithCancel(t.Context())
		l.mu.Lock()
		l.written++ // so that there is something to flush
		l.mu.Unlock()
		flush := make(chan error, 1)
		go func() { flush <- l.Flush(ctx) }()
		pending(t, "during the sync", flush)
		cancel()
		require.ErrorIs(t, <-flush, context.Canceled)
		let <- nil
		require.NoError(t, <-first)
		d.setOp(nil)
		mustAppend(t, l, "fourth\n")
		wantDisk(t, d, workFirst+"first\nsecond\nthird\nfourth\n")
		closeAll(t, l)
	})
}

// Recover waits for a sync that is running, and gives up with its context.
func TestRecoverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		_ = wantInDoubt(t, d, l, "a\n")
		l.leading <- struct{}{} // as by a sync that began before the failed one ended
		ctx, cancel := context.WithCancel(t.Context())
		recovered := make(chan error, 1)
		go func() { recovered <- l.Recover(ctx) }()
		pending(t, "during the sync", recovered)
		cancel()
		require.ErrorIs(t, <-recovered, context.Canceled)
		go func() { recovered <- l.Recover(t.Context()) }()
		pending(t, "during the sync", recovered)
		<-l.leading
		require.NoError(t, <-recovered)
		wantDisk(t, d, workFirst+"a\n")
		closeAll(t, l)
	})
}

// Under an interval no more bytes pile up than memory may keep.
func TestIntervalSyncsWhatPilesUp(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	before := d.syncs
	line := strings.Repeat("x", 1<<20-1) + "\n"
	for range maxUnsynced>>20 + 1 {
		mustAppend(t, l, line)
	}
	require.Equal(t, 1, d.syncs-before)
	require.Zero(t, len(l.unsynced.data))
	closeAll(t, l)
}

// The bytes kept of unsynced writes do not grow with their number.
func TestUnsyncedIsBounded(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncInterval(1e18)} {
		d := newCacheDisk(t)
		l := d.create(t, policy)
		for range 300 {
			mustAppend(t, l, strings.Repeat("x", 999)+"\n")
			require.NoError(t, l.Flush(t.Context()))
		}
		u := &l.unsynced
		if len(u.parts) != 0 || len(u.data) != 0 || cap(u.parts) > 64 || cap(u.data) > maxSpare {
			t.Errorf("%v: %d parts of %d, %d bytes, a buffer of %d", policy, len(u.parts), cap(u.parts), len(u.data), cap(u.data))
		}
		closeAll(t, l)
	}
}

// A sync ends the calls it covers, including one that came late. Calls that
// came after its beginning wait for the next.
func TestSyncWakesWhomItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		let := slowSyncs(d)
		first := started(l, "first\n")
		flush := make(chan error, 1)
		go func() { flush <- l.Sync(t.Context()) }()
		pending(t, "during the first sync", flush, first)
		later := []chan error{started(l, "second\n"), started(l, "third\n")}
		let <- nil
		require.NoError(t, errors.Join(<-first, <-flush))
		pending(t, "during the second sync", later...)
		let <- nil // all waiting calls share it
		require.NoError(t, errors.Join(<-later[0], <-later[1]))
		d.setOp(nil)
		wantDisk(t, d, workFirst+"first\nsecond\nthird\n")
		closeAll(t, l)
	})
}

// A Log whose goroutines constantly take the lock lets another Log in.
func TestAppendLetsOthersIn(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncNever), d.open(t, SyncNever)
	var (
		stop atomic.Bool
		wg   sync.WaitGroup
	)
	for range 16 {
		wg.Go(func() {
			for !stop.Load() {
				if _, _, err := l.Append(t.Context(), Lines([]byte("many\n"))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		mustAppend(t, other, "one\n")
	}
	stop.Store(true)
	wg.Wait()
	got := d.inCache(t)
	if n := strings.Count(got, "one\n"); n != 20 || strings.Count(got, "\n") != strings.Count(got, "many\n")+21 {
		t.Errorf("%d of 20 lines are there", n)
	}
	closeAll(t, l, other)
}
