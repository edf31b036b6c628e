package filelog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// slowSyncs makes the syncs of a model wait until they are let go on, with an
// error or without one.
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
		_, _, err := l.Append(context.Background(), []byte(lines), nil)
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
				if err := <-first; err != nil {
					t.Error(err)
				}
				pending(t, "during the second sync", others...)
				let <- fault
				for _, c := range others {
					if err := <-c; !errors.Is(err, fault) {
						t.Errorf("Append = %v, its sync %v", err, fault)
					}
				}
				if n := d.syncs - before; n != 2 {
					t.Errorf("%d syncs, want 2", n)
				}
				d.setOp(nil)
				if err := l.Recover(t.Context()); err != nil {
					t.Error(err)
				}
				wantDisk(t, d, want.String())
				closeAll(t, l)
			})
		})
	}
}

// A failed sync is the outcome for the callers that wait for the next one too.
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
			if e, ok := errors.AsType[*NotDurableError](<-c); !ok || e.Refused {
				t.Errorf("call %d returned %v", i, e)
			}
		}
		if n := d.syncs - before; n != 1 {
			t.Errorf("%d syncs, want 1: a second one proves nothing", n)
		}
		d.setOp(nil)
		if err := l.Recover(t.Context()); err != nil {
			t.Error(err)
		}
		wantDisk(t, d, workFirst+"a\nb\nc\n")
		closeAll(t, l)
	})
}

// Flush gives up with its context while it waits, an Append that has written
// does not, and a call that gives up delays no other.
func TestSyncWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		let := slowSyncs(d)
		first := started(l, "first\n")
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() {
			_, _, err := l.Append(ctx, []byte("second\n"), nil)
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
		if err := <-first; err != nil {
			t.Error(err)
		}
		pending(t, "before its sync", second)
		let <- nil
		if err := <-second; err != nil {
			t.Error(err)
		}
		// Nobody is left of those who wait for the next sync.
		first = started(l, "third\n")
		ctx, cancel = context.WithCancel(t.Context())
		l.mu.Lock()
		l.written++ // so that there is something to flush
		l.mu.Unlock()
		flush := make(chan error, 1)
		go func() { flush <- l.Flush(ctx) }()
		pending(t, "during the sync", flush)
		cancel()
		if err := <-flush; !errors.Is(err, context.Canceled) {
			t.Errorf("Flush = %v", err)
		}
		let <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
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
		l.mu.Lock()
		l.leading = true // as a sync does that began before the failed one ended
		l.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		recovered := make(chan error, 1)
		go func() { recovered <- l.Recover(ctx) }()
		pending(t, "during the sync", recovered)
		cancel()
		if err := <-recovered; !errors.Is(err, context.Canceled) {
			t.Errorf("Recover = %v", err)
		}
		go func() { recovered <- l.Recover(t.Context()) }()
		pending(t, "during the sync", recovered)
		l.mu.Lock()
		l.follow()
		l.mu.Unlock()
		if err := <-recovered; err != nil {
			t.Error(err)
		}
		wantDisk(t, d, workFirst+"a\n")
		closeAll(t, l)
	})
}

// An interval does not let more pile up than is kept in memory.
func TestIntervalSyncsWhatPilesUp(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	before := d.syncs
	line := strings.Repeat("x", 1<<20-1) + "\n"
	for range maxUnsynced>>20 + 1 {
		mustAppend(t, l, line)
	}
	if n := d.syncs - before; n != 1 {
		t.Errorf("%d syncs, want 1", n)
	}
	if n := len(l.unsynced.data); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	closeAll(t, l)
}

// The memory kept for writes does not grow with their number.
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

// Calls hand the kernel's lock to each other. Calls that give up waiting for it
// do not take it with them.
func TestChainEnds(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncNever), d.open(t, SyncNever)
	for i := range 300 {
		held, waits := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() {
			_, _, err := l.Append(t.Context(), []byte("a\n"), func(int64) error {
				close(held)
				<-waits
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-held
		for range 2 {
			calls.Go(func() {
				_, _, err := l.Append(ctx, []byte("b\n"), nil)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		if i%2 == 0 {
			for l.queued.Load() < 2 {
				mustSize(t, l)
			}
		}
		calls.Go(cancel)
		close(waits)
		calls.Wait()
		// Free for another Log at once.
		if ok, err := other.file().Lock(false); !ok || err != nil {
			t.Fatalf("run %d: the kernel's lock was kept: %v, %v", i, ok, err)
		}
		require.NoError(t, other.file().Unlock())
	}
	closeAll(t, l, other)
}

// A call that gives up just when the lock is left to it has seen that somebody
// has the place: the call that leaves it looks after it.
func TestChainIsLookedAfter(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncNever), d.open(t, SyncNever)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp, handed := make(chan error, 1), 0
	d.setOp(func(op string) error {
		if op == "hand on" {
			handed++
			cancel()
			if err := <-gaveUp; !errors.Is(err, context.Canceled) {
				t.Errorf("who waited got %v", err)
			}
		}
		return nil
	})
	_, _, err := l.Append(t.Context(), []byte("a\n"), func(int64) error {
		go func() {
			_, _, err := l.Append(ctx, []byte("b\n"), nil)
			gaveUp <- err
		}()
		for l.queued.Load() < 1 {
			runtime.Gosched()
		}
		return nil
	})
	if err != nil || handed != 1 {
		t.Fatalf("Append = %v, handed on %d times", err, handed)
	}
	if ok, err := other.file().Lock(false); !ok || err != nil {
		t.Fatalf("the kernel's lock was kept: %v, %v", ok, err)
	}
	require.NoError(t, other.file().Unlock())
	closeAll(t, l, other)
}

// The end of a sync wakes the callers it covers. Of those that came later it
// wakes one, to lead the next.
func TestSyncWakesWhomItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		let := slowSyncs(d)
		first := started(l, "first\n")
		flush := make(chan error, 1)
		go func() { flush <- l.Flush(t.Context()) }()
		synctest.Wait()
		running := l.round
		if running == nil || l.next != nil {
			t.Error("a Flush of what the running sync is for does not wait for that sync")
		}
		later := []chan error{started(l, "second\n"), started(l, "third\n")}
		next := l.next
		if l.round != running || next == nil {
			t.Error("an append that the running sync is not for waits for it")
		}
		let <- nil
		if err := errors.Join(<-first, <-flush); err != nil {
			t.Error(err)
		}
		pending(t, "during the second sync", later...)
		if l.round != next || l.next != nil {
			t.Error("those who waited for the next sync do not all share it")
		}
		let <- nil
		if err := errors.Join(<-later[0], <-later[1]); err != nil {
			t.Error(err)
		}
		d.setOp(nil)
		wantDisk(t, d, workFirst+"first\nsecond\nthird\n")
		closeAll(t, l)
	})
}

// A lock that was left to a call which never came is given up by the next one
// that gives up.
func TestChainIsNotLeftBehind(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncNever), d.open(t, SyncNever)
	require.NoError(t, l.takeLock(t.Context(), "test", false))
	l.queued.Add(1) // a call on its way
	l.unlock()
	if ok, err := other.file().Lock(false); ok || err != nil {
		t.Fatalf("the kernel's lock was not left to it: %v, %v", ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.queued.Add(-1)
	if err := l.takeLock(ctx, "test", false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if ok, err := other.file().Lock(false); !ok || err != nil {
		t.Fatalf("the kernel's lock was kept: %v, %v", ok, err)
	}
	require.NoError(t, other.file().Unlock())
	mustAppend(t, l, "a\n")
	closeAll(t, l, other)
}

// The end of the file is looked at anew after a failed write, in a chain too.
func TestChainAfterAFailedWrite(t *testing.T) {
	d := &faultDisk{failAt: 1, only: "none", short: 3}
	w := newWorkload(t, d)
	w.create()
	l := w.log
	l.queued.Add(1) // a call on its way, all the time
	l.arrived.Add(10)
	mustAppend(t, l, "one\n")
	l.arrived.Store(2) // the next ones had arrived before the name was looked up
	d.step = func(op string) error {
		if op == "lookup" {
			t.Error("the name is looked up once more")
		}
		return nil
	}
	mustAppend(t, l, "two\n")
	d.step = func(op string) error {
		if op == "truncate" {
			return errFault
		}
		return nil
	}
	d.only, d.ops = "write", 0
	if _, _, err := l.Append(t.Context(), []byte("three\n"), nil); !errors.Is(err, ErrFragment) {
		t.Fatalf("Append = %v", err)
	}
	d.only, d.step = "none", nil
	start, _, err := l.Append(t.Context(), []byte("four\n"), nil)
	if got := string(w.content()); err != nil || got != workFirst+"one\ntwo\nthr\nfour\n" || got[start:] != "four\n" {
		t.Errorf("Append at %d, %v made %q", start, err, got)
	}
	l.queued.Add(-1)
	l.unchain()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.reopen(t)
}

func mustSize(t *testing.T, l *Log) {
	t.Helper()
	if _, err := l.Size(); err != nil {
		t.Fatal(err)
	}
}

// A call that comes after a file was replaced fails, also if the kernel's lock has
// been held ever since.
func TestChainLooksUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncNever)
		mustAppend(t, l, "a\n")
		replaced := make(chan struct{})
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		in := func(done chan error, lines string, check func(int64) error) {
			_, _, err := l.Append(context.Background(), []byte(lines), check)
			done <- err
		}
		held := make(chan struct{})
		go in(first, "b\n", func(int64) error { <-held; return nil })
		synctest.Wait()
		go in(second, "c\n", func(int64) error { <-replaced; return nil })
		synctest.Wait()
		close(held)
		synctest.Wait()
		require.NoError(t, errors.Join(d.root.Rename(workName, "b"), d.root.WriteFile(workName, []byte("new\n"), 0o600)))
		go in(third, "d\n", nil)
		synctest.Wait()
		close(replaced)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
		if err := <-third; !errors.Is(err, ErrReplaced) {
			t.Errorf("an append that began after the file was replaced returned %v", err)
		}
		closeAll(t, l)
	})
}

// A Log whose goroutines never leave the lock alone lets another one in.
func TestChainLetsOthersIn(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncNever), d.open(t, SyncNever)
	var (
		stop atomic.Bool
		wg   sync.WaitGroup
	)
	for range 16 {
		wg.Go(func() {
			for !stop.Load() {
				if _, _, err := l.Append(t.Context(), []byte("many\n"), nil); err != nil {
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
