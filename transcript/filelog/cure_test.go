package filelog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A cureRun is one story of a failed sync on a disk that heals at once. It
// collects what was acknowledged, and what a power cut would take of that.
type cureRun struct {
	t     *testing.T
	d     *cacheDisk
	v     variant
	acked []string
	wrong []string
}

// A variant is this package with one of its rules left out. The zero value is
// the package as it is.
type variant struct {
	opened    func(l *Log)                  // after Open
	recover   func(d *cacheDisk, l *Log)    // before Recover, or instead of it
	naive     bool                          // instead of it
	flush     func(l *Log)                  // before a Flush
	suspects  func(l *Log)                  // after Suspect
	mutate    func(file) file               // of all files
	beforeFix func(d *cacheDisk, op string) // at every operation of a cure
}

func newCureRun(t *testing.T, v variant) *cureRun {
	d := newCacheDisk(t)
	d.mutate = v.mutate
	return &cureRun{t: t, d: d, v: v, acked: []string{workFirst}}
}

// open opens the log as another process.
func (r *cureRun) open(policy SyncPolicy) *Log {
	l := r.d.open(r.t, policy)
	if r.v.opened != nil {
		r.v.opened(l)
	}
	return l
}

// append appends a line and notes that it was acknowledged, if it was.
func (r *cureRun) append(l *Log, line string) error {
	_, _, err := l.Append(context.Background(), []byte(line), nil)
	if err == nil {
		r.acked = append(r.acked, line)
	}
	return err
}

// fail appends a line whose sync fails.
func (r *cureRun) fail(l *Log, line string) {
	r.d.setOp(failOnce("sync"))
	err := r.append(l, line)
	r.d.setOp(nil)
	e, ok := errors.AsType[*NotDurableError](err)
	require.True(r.t, ok && !e.Refused, "Append with a failing sync = %v", err)
}

// flushAll acknowledges everything readers see.
func (r *cureRun) flushAll(l *Log) error {
	err := l.FlushAll(context.Background())
	if err == nil {
		r.ackAll()
	}
	return err
}

func (r *cureRun) ackAll() {
	for line := range strings.Lines(r.d.inCache(r.t)) {
		if !slices.Contains(r.acked, line) && !strings.Contains(line, "\x00") {
			r.acked = append(r.acked, line)
		}
	}
}

func (r *cureRun) recover(l *Log) error {
	if r.v.recover != nil {
		r.v.recover(r.d, l)
	}
	if r.v.naive { // as without a mark
		require.NoError(r.t, l.file().Mark(false))
		l.failed, l.synced = nil, l.written
		r.ackAll()
		return nil
	}
	if f := r.v.beforeFix; f != nil {
		r.d.setOp(func(op string) error { f(r.d, op); return nil })
		defer r.d.setOp(nil)
	}
	err := l.Recover(context.Background())
	if err == nil {
		r.ackAll()
	}
	return err
}

// check says what a power cut would take.
func (r *cureRun) check(when string) {
	for _, line := range r.d.lost(r.acked...) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %q was acknowledged, and a power cut takes it", when, line))
	}
}

// must says that a call should have succeeded.
func (r *cureRun) must(what string, err error) {
	if err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", what, err))
	}
}

// The stories. Each plays one way on after a failed sync.
var stories = map[string]func(r *cureRun){
	"the log recovers while its pages are cached": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		r.fail(l, "two\n")
		r.must("recover", r.recover(l))
		r.check("after Recover")
		r.must("append after it", r.append(l, "three\n"))
		r.check("after the next append")
	},
	"the log recovers": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		other := r.open(SyncNever)
		r.must("append", r.append(l, "one\n"))
		_, _, err := other.Append(context.Background(), []byte("foreign\n"), nil)
		r.must("foreign append", err)
		r.fail(l, "two\n")
		r.d.evict(r.t)
		r.must("recover", r.recover(l))
		r.check("after Recover")
		r.must("append after it", r.append(l, "three\n"))
		r.check("after the next append")
		if !strings.Contains(r.d.inCache(r.t), "two\n") {
			r.wrong = append(r.wrong, "the lines of the log itself are not in the file")
		}
	},
	"another process goes on": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		r.fail(l, "two\n")
		r.d.kill()
		next := r.open(SyncAlways)
		r.must("append", r.append(next, "three\n"))
		r.check("after an append")
		r.must("flush", r.flushAll(next))
		r.check("after FlushAll")
	},
	"another process vouches for what it reads": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		r.fail(l, "two\n")
		r.d.kill()
		r.must("flush", r.flushAll(r.open(SyncAlways)))
		r.check("after FlushAll")
	},
	"a log that was open all the time goes on": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		other := r.open(SyncAlways)
		r.must("append", r.append(other, "one\n"))
		r.fail(l, "two\n")
		r.must("append", r.append(other, "three\n"))
		r.must("flush", r.flushAll(other))
		r.check("after FlushAll")
		r.must("recover", r.recover(l)) // it finds its line in the copy
		r.must("append", r.append(l, "four\n"))
		r.check("after Recover")
	},
	"a process is killed between failure and mark": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		r.must("append", r.append(l, "one\n"))
		from, err := l.Size()
		require.NoError(r.t, err)
		r.d.setOp(func(op string) error {
			if op == "sync" {
				return errFault
			}
			if op == "mark" {
				r.d.mu.Lock()
				defer r.d.mu.Unlock()
				for _, f := range r.d.opened {
					_ = f.Close()
				}
				return errFault
			}
			return nil
		})
		_ = r.append(l, "two\n")
		r.d.kill()
		next := r.open(SyncAlways)
		next.Suspect(from)
		if r.v.suspects != nil {
			r.v.suspects(next)
		}
		r.must("append", r.append(next, "three\n"))
		r.must("flush", r.flushAll(next))
		r.check("after FlushAll")
	},
	"a process opens between failure and mark": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		next := r.open(SyncAlways)
		r.d.last.knows = 1 // it was opened after the failure
		waits, done := make(chan struct{}, 100), make(chan error, 1)
		began := false
		r.d.setOp(func(op string) error {
			switch {
			case op == "sync" && !began:
				return errFault
			case op == "mark" && !began:
				began = true
				go func() { done <- next.FlushAll(context.Background()) }()
				select {
				case <-waits: // for the sync lock, which this log holds
				case err := <-done:
					done <- err
				}
			case op == "sync lock is held":
				waits <- struct{}{}
			}
			return nil
		})
		_ = r.append(l, "two\n") // is fine if it finds its line in the copy of the other
		if !began {              // the mark is not set at all
			done <- next.FlushAll(context.Background())
		}
		if err := <-done; err == nil {
			r.ackAll()
		}
		r.d.setOp(nil)
		r.check("after FlushAll")
	},
	"two processes under an interval": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		other := r.open(SyncInterval(1e18))
		r.must("append", r.append(other, "interval\n"))
		r.fail(l, "two\n")
		r.d.evict(r.t)
		r.must("recover", r.recover(l)) // its copy lacks what the other one wrote
		if r.v.flush != nil {
			r.v.flush(other)
		}
		err := other.Flush(context.Background())
		if err == nil {
			r.check("after Flush")
			return
		}
		if _, ok := errors.AsType[*NotDurableError](err); !ok {
			r.wrong = append(r.wrong, fmt.Sprintf("Flush = %v", err))
		}
		if _, _, err := other.Append(context.Background(), []byte("no\n"), nil); !isRefused(err) {
			r.wrong = append(r.wrong, fmt.Sprintf("the next append returned %v", err))
		}
		if _, err := other.Size(); !isRefused(err) {
			r.wrong = append(r.wrong, fmt.Sprintf("Size = %v", err))
		}
		r.must("recover the other", r.recover(other))
		r.must("append", r.append(other, "more\n"))
		r.must("flush", other.Flush(context.Background()))
		r.check("after the second Recover")
	},
	"leftovers are removed while a copy is made": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		r.fail(l, "two\n")
		r.d.setOp(func(op string) error {
			if op == "move" {
				return RemoveTemps(r.d.root, workName)
			}
			return nil
		})
		r.must("recover", l.Recover(context.Background()))
		r.d.setOp(nil)
	},
}

// killed plays a cure that is killed before its operation n, in the process of
// the log that failed, after which another process goes on and the power is cut.
// It reports whether there was such an operation.
func (r *cureRun) killed(n int) bool {
	l := r.d.create(r.t, SyncAlways)
	r.must("append", r.append(l, "one\n"))
	r.fail(l, "two\n")
	ops := 0
	r.d.setOp(func(op string) error {
		if r.v.beforeFix != nil && ops < n {
			r.v.beforeFix(r.d, op)
		}
		if ops++; ops >= n {
			return errFault
		}
		return nil
	})
	if err := l.Recover(context.Background()); err == nil {
		r.ackAll()
	}
	r.d.kill()
	r.check(fmt.Sprintf("killed before operation %d", n))
	next := r.open(SyncAlways)
	r.must("the next append", r.append(next, "three\n"))
	r.must("the next flush", r.flushAll(next))
	r.check(fmt.Sprintf("killed before operation %d, and gone on", n))
	if r.d.marked(r.t) {
		r.wrong = append(r.wrong, "the mark is still set")
	}
	names, err := os.ReadDir(r.d.root.Name())
	require.NoError(r.t, err)
	if len(names) != 1 {
		r.wrong = append(r.wrong, fmt.Sprintf("the folder holds %v", names))
	}
	return ops >= n
}

// tell runs all stories, and kills at every step, and returns what was wrong.
func tell(t *testing.T, v variant) (wrong []string, runs int) {
	for name, story := range stories {
		r := newCureRun(t, v)
		story(r)
		runs++
		for _, w := range r.wrong {
			wrong = append(wrong, name+": "+w)
		}
	}
	if v.naive {
		return wrong, runs
	}
	for n := 1; ; n++ {
		r := newCureRun(t, v)
		more := r.killed(n)
		runs++
		wrong = append(wrong, r.wrong...)
		if !more {
			return wrong, runs
		}
	}
}

// Whatever happens to a cure, nothing that was acknowledged is lost.
func TestCure(t *testing.T) {
	t.Parallel()
	wrong, runs := tell(t, variant{})
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d runs", runs)
	require.Greater(t, runs, 15, "the kills are not injected")
}

// Variants that mutate a file.
type (
	unmarking struct{ file } // never sets the mark
	unlocked  struct{ file } // does not lock a temporary file
	believing struct{ file } // takes the cache for the disk, as fadvise and a read do
)

func (f unmarking) Mark(on bool) error {
	if on {
		return nil
	}
	return f.file.Mark(on)
}

func (f unlocked) Lock(at lockByte, shared bool) (bool, error) {
	if _, err := f.Lookup(); at == appendLock && err != nil {
		return true, nil
	}
	return f.file.Lock(at, shared)
}

func (believing) Matches(int64, int64) (bool, error) { return true, nil }

// rewrite writes what readers see over itself, and syncs that.
func rewrite(d *cacheDisk, l *Log) {
	f := d.last
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	f.wrote(0, int(info.Size()))
	_ = f.Sync() // the first reports the old failure
	_ = f.Sync()
}

// rewriteAndDrop also makes the cache forget and reads back, for as long as that
// does not look good. The page of the end stays in the cache.
func rewriteAndDrop(d *cacheDisk, l *Log) {
	for range 3 {
		rewrite(d, l)
		b := make([]byte, 4)
		if n, _ := l.ReadAt(b, int64(len(workFirst))); string(b[:n]) == "two\n" {
			return
		}
	}
}

// Every rule of the cure is needed: without it a story ends badly.
func TestCureBites(t *testing.T) {
	t.Parallel()
	const taken = "a power cut takes it"
	for what, c := range map[string]struct {
		variant
		want string
	}{
		"the sync is tried again":                          {variant{naive: true, recover: func(_ *cacheDisk, l *Log) { _ = l.file().Sync() }}, taken},
		"what is cached is written again in place":         {variant{naive: true, recover: rewrite}, taken},
		"what is cached is written again, and read back":   {variant{naive: true, recover: rewriteAndDrop}, taken},
		"the mark is not set":                              {variant{mutate: func(f file) file { return unmarking{f} }}, taken},
		"the mark is cleared before the folder is synced":  {variant{beforeFix: unmarkEarly}, taken},
		"a cure does not lay its own lines over":           {variant{recover: func(_ *cacheDisk, l *Log) { l.unsynced = unsynced{} }}, taken},
		"the first acknowledgement does not wait and look": {variant{opened: func(l *Log) { l.drained = true }}, taken},
		"a suspicion is ignored":                           {variant{suspects: func(l *Log) { l.suspect = math.MaxInt64 }}, taken},
		"a suspicion is checked against the cache":         {variant{mutate: func(f file) file { return believing{f} }}, taken},
		"a copy by others is not compared":                 {variant{flush: func(l *Log) { l.unsynced = unsynced{} }}, taken},
		"the temporary file is not locked":                 {variant{mutate: func(f file) file { return unlocked{f} }}, "no such file"},
	} {
		t.Run(what, func(t *testing.T) {
			wrong, runs := tell(t, c.variant)
			i := slices.IndexFunc(wrong, func(w string) bool { return strings.Contains(w, c.want) })
			require.GreaterOrEqual(t, i, 0, "%d runs found nothing of the kind: %q", runs, wrong)
			t.Logf("%d findings in %d runs, such as: %s", len(wrong), runs, wrong[i])
		})
	}
}

// unmarkEarly clears the mark when the folder is about to be synced.
func unmarkEarly(d *cacheDisk, op string) {
	if op == "sync folder" {
		if err := d.root.Chmod(workName, 0o600); err != nil {
			panic(err)
		}
	}
}

// A kill without a failure costs no copy, and a mark that outlives the process
// costs one.
func TestSuspectKeepsASoundFile(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	mustAppend(t, l, "one\n")
	d.kill()
	before, err := d.root.Lstat(workName)
	require.NoError(t, err)
	for _, policy := range []SyncPolicy{SyncAlways, SyncInterval(1e18), SyncNever} {
		next := d.open(t, policy)
		next.Suspect(3)
		next.Suspect(int64(len(workFirst)))
		matches := 0
		d.setOp(func(op string) error {
			if op == "match" {
				matches++
			}
			return nil
		})
		mustAppend(t, next, "more\n")
		mustAppend(t, next, "more\n")
		require.Zero(t, next.Copies())
		require.Equal(t, policy != SyncNever, matches == 1, "%d", matches)
		d.setOp(nil)
		closeAll(t, next)
	}
	after, err := d.root.Lstat(workName)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))

	// Where the cache cannot be bypassed a copy is the only proof.
	d.setOp(failOnce("match"))
	next := d.open(t, SyncAlways)
	next.Suspect(0)
	require.NoError(t, next.Flush(t.Context()))
	require.EqualValues(t, 1, next.Copies())
	closeAll(t, next)
}

// A process that cannot set the mark keeps the sync lock, so that others who
// have just opened the file wait for its Recover.
func TestMarkFails(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	d.setOp(func(op string) error {
		if op == "sync" || op == "mark" {
			return errFault
		}
		return nil
	})
	_, _, err := l.Append(t.Context(), []byte("two\n"), nil)
	require.Error(t, err)
	next := d.open(t, SyncAlways)
	ctx, cancel := context.WithCancel(t.Context())
	d.setOp(func(op string) error {
		if op == "sync lock is held" {
			cancel()
		}
		return nil
	})
	_, _, err = next.Append(ctx, []byte("no\n"), nil)
	require.ErrorIs(t, err, ErrBusy)
	d.setOp(nil)
	require.NoError(t, l.Recover(t.Context()))
	require.Empty(t, d.lost(workFirst, "two\n"))
	_, _, err = next.Append(t.Context(), []byte("no\n"), nil)
	require.ErrorIs(t, err, ErrReplaced)
	closeAll(t, l, next)
}

// A Log waits for a sync of another one that has failed and could not be marked. That
// one can recover meanwhile, though both need the append lock.
func TestRecoverWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		d.setOp(func(op string) error {
			if op == "sync" || op == "mark" {
				return errFault
			}
			return nil
		})
		_, _, err := l.Append(t.Context(), []byte("two\n"), nil)
		require.Error(t, err)
		next := d.open(t, SyncAlways)
		waits := make(chan struct{}, 1)
		d.setOp(func(op string) error {
			if op == "sync lock is held" {
				select {
				case waits <- struct{}{}:
				default:
				}
			}
			return nil
		})
		done := make(chan error, 1)
		go func() { done <- next.FlushAll(context.Background()) }()
		<-waits
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, l.Recover(ctx))
		require.ErrorIs(t, <-done, ErrReplaced)
		require.Empty(t, d.lost(workFirst, "two\n"))
		closeAll(t, next)

		// It gives up with its context, and without the lock that it has lent.
		next = d.open(t, SyncAlways)
		other := d.open(t, SyncAlways)
		syncing, err := other.file().Lock(syncLock, true)
		require.NoError(t, err)
		require.True(t, syncing)
		for _, after := range []time.Duration{minKeep / 2, minKeep + lendFor/2, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			require.ErrorIs(t, next.FlushAll(ctx), ErrBusy)
			cancel()
			mustAppend(t, l, "more\n")
		}
		go func() { done <- next.FlushAll(context.Background()) }()
		time.Sleep(minKeep + lendFor/2)
		require.NoError(t, next.Close())
		require.ErrorIs(t, <-done, ErrClosed)
		mustAppend(t, l, "more\n")
		closeAll(t, l, other)
	})
}

// A copy that does not fit changes nothing, says what it needs, and is made when
// there is room.
func TestCureMeetsAFullDisk(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	other := d.open(t, SyncAlways)
	size := len(workFirst) + len("two\n")
	for _, cure := range []func() error{
		func() error { return l.Recover(t.Context()) },
		func() error { _, _, err := other.Append(t.Context(), []byte("three\n"), nil); return err },
	} {
		d.setOp(failOnce("write"))
		err := cure()
		require.ErrorIs(t, err, errFault)
		require.Contains(t, err.Error(), fmt.Sprintf("needs %d bytes", size))
		require.Equal(t, workFirst+"two\n", d.inCache(t))
		require.True(t, d.marked(t))
		names, err := os.ReadDir(d.root.Name())
		require.NoError(t, err)
		require.Len(t, names, 1)
	}
	d.setOp(nil)
	mustAppend(t, other, "three\n")
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"two\nthree\n")
	closeAll(t, l, other)
}

// A copy whose name may not survive a power cut is not where acknowledged lines
// are safe: the Log that has made it has failed.
func TestCureMeetsAFolderThatCannotBeSynced(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncInterval(1e18)), d.open(t, SyncAlways)
	mustAppend(t, l, "interval\n")
	mustAppend(t, l, "more\n")
	require.NoError(t, l.file().Mark(true)) // as a third process has
	d.setOp(failOnce("sync folder"))
	_, _, err := l.Append(t.Context(), []byte("no\n"), nil)
	require.True(t, isRefused(err), "Append = %v", err)
	d.setOp(nil)
	failed := l.Failed()
	require.NotNil(t, failed)
	require.EqualValues(t, len(workFirst), failed.Start)
	require.EqualValues(t, len(workFirst+"interval\nmore\n"), failed.End)
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"interval\nmore\n")
	closeAll(t, l, other)
}

// The copy is this Log's own file from the moment it has the name, also while its
// folder is synced: no call of this Log says that the file was replaced.
func TestReadingDuringACure(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	want := workFirst + "two\n"
	looks := 0
	look := func() {
		size, err := l.Size()
		require.NoError(t, err)
		require.EqualValues(t, len(want), size)
		got := make([]byte, len(want))
		_, err = l.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		looks++
	}
	d.setOp(func(op string) error {
		if op == "move" || op == "sync folder" {
			look()
		}
		return nil
	})
	require.NoError(t, l.Recover(t.Context()))
	require.Equal(t, 2, looks)
	d.setOp(nil)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := l.Size(); err != nil {
				t.Errorf("Size during a cure = %v", err)
				return
			}
		}
	})
	for range 50 {
		require.NoError(t, l.file().Mark(true))
		require.NoError(t, l.Flush(t.Context()))
	}
	close(stop)
	wg.Wait()
	require.EqualValues(t, 51, l.Copies())
	wantDisk(t, d, want)
	closeAll(t, l)
}

// Lines that are all in a copy by another Log are safe there, and this Log owes
// nothing more.
func TestLinesAreInTheCopyOfAnother(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncInterval(1e18))
	mustAppend(t, other, "interval\n")
	mustAppend(t, other, "again\n")
	_ = wantInDoubt(t, d, l, "two\n")
	third := d.open(t, SyncNever)
	mustAppend(t, third, "three\n") // makes the copy
	require.NoError(t, l.Recover(t.Context()))
	require.NoError(t, other.Flush(t.Context()))
	require.Nil(t, other.Failed())
	require.Equal(t, int64(math.MaxInt64), other.Unsynced())
	_, _, err := other.Append(t.Context(), []byte("no\n"), nil)
	require.ErrorIs(t, err, ErrReplaced)
	require.Equal(t, workFirst+"interval\nagain\ntwo\nthree\n", d.inCache(t))
	closeAll(t, l, other, third)
}

// A lender counts the append locks that are out when a file is closed.
type lender struct {
	file
	held bool
	kept *int
}

func (f *lender) Lock(at lockByte, shared bool) (bool, error) {
	ok, err := f.file.Lock(at, shared)
	f.held = f.held || ok && at == appendLock
	return ok, err
}

func (f *lender) Unlock(at lockByte) error {
	f.held = f.held && at != appendLock
	return f.file.Unlock(at)
}

func (f *lender) Close() error {
	if f.held {
		*f.kept++
	}
	return f.file.Close()
}

// The lock of a copy that was only compared is given back and not left to the
// descriptor, which a child process may have inherited.
func TestComparingReturnsTheLock(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncInterval(1e18))
	mustAppend(t, other, "interval\n")
	_ = wantInDoubt(t, d, l, "two\n")
	require.NoError(t, l.Recover(t.Context()))
	opened, kept := 0, 0
	d.mutate = func(f file) file {
		opened++
		return &lender{file: f, kept: &kept}
	}
	require.NoError(t, other.Flush(t.Context()))
	require.Equal(t, []int{1, 0}, []int{opened, kept})
	closeAll(t, l, other)
}

// A lockless file cannot be locked.
type lockless struct{ file }

func (lockless) Lock(lockByte, bool) (bool, error) { return false, errFault }

// Lines that cannot be compared with the copy of another Log are in doubt.
func TestTheCopyOfAnotherCannotBeRead(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncInterval(1e18))
	mustAppend(t, other, "interval\n")
	e := wantInDoubt(t, d, l, "two\n")
	require.NoError(t, l.Recover(t.Context()))
	d.mutate = func(f file) file { return lockless{f} }
	failed, ok := errors.AsType[*NotDurableError](other.Flush(t.Context()))
	require.True(t, ok)
	require.ErrorIs(t, failed, errFault)
	require.Equal(t, e.Start, failed.End)
	require.ErrorIs(t, other.Recover(t.Context()), errFault)
	d.mutate = nil
	require.NoError(t, other.Recover(t.Context()))
	require.NoError(t, other.Flush(t.Context()))
	wantDisk(t, d, workFirst+"interval\ntwo\n")
	mustAppend(t, other, "three\n")
	closeAll(t, l, other)
}

// A suspicion is checked by a sync, whose failure is one of the Log.
func TestSuspectMeetsAFailingSync(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	next := d.open(t, SyncAlways)
	next.Suspect(3)
	d.setOp(failOnce("sync"))
	_, _, err := next.Append(t.Context(), []byte("no\n"), nil)
	require.True(t, isRefused(err), "Append = %v", err)
	require.ErrorIs(t, err, errFault)
	require.EqualValues(t, 3, next.Failed().Start)
	d.setOp(nil)
	require.NoError(t, next.Recover(t.Context()))
	mustAppend(t, next, "two\n")
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l, next)
}

// Of two calls that recover a Log one makes the copy.
func TestRecoverTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		_ = wantInDoubt(t, d, l, "two\n")
		let := slowSyncs(d)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- l.Recover(context.Background()) }()
		}
		pending(t, "during the copy", done)
		let <- nil
		require.NoError(t, errors.Join(<-done, <-done))
		require.EqualValues(t, 1, l.Copies())
		d.setOp(nil)
		wantDisk(t, d, workFirst+"two\n")
		closeAll(t, l)
	})
}

// A file that is removed while its copy is made does not come back.
func TestRecoverMeetsARemoval(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	d.setOp(func(op string) error {
		if op == "move" {
			return d.root.Remove(workName)
		}
		return nil
	})
	require.Error(t, l.Recover(t.Context()))
	d.setOp(nil)
	require.ErrorIs(t, l.Recover(t.Context()), ErrReplaced)
	names, err := os.ReadDir(d.root.Name())
	require.NoError(t, err)
	require.Empty(t, names)
	require.Error(t, l.Close(), "after a failed sync")
}

// An obstinate file keeps the sync lock once.
type obstinate struct {
	file
	done *bool
}

func (f obstinate) Unlock(at lockByte) error {
	if at == syncLock && !*f.done {
		*f.done = true
		return errFault
	}
	return f.file.Unlock(at)
}

// A sync lock that cannot be given back is let go with the descriptor, and
// nothing is written.
func TestUnlockSyncFails(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	d.mutate = func(f file) file { return obstinate{f, new(bool)} }
	next := d.open(t, SyncAlways)
	d.mutate = nil
	_, _, err := next.Append(t.Context(), []byte("no\n"), nil)
	require.ErrorIs(t, err, errFault)
	wantFree(t, l)
	mustAppend(t, l, "two\n")
	mustAppend(t, next, "three\n")
	wantDisk(t, d, workFirst+"two\nthree\n")
	closeAll(t, l, next)
}

// A cure that cannot read the file does not copy NULs instead.
func TestCopyLinesOfAFileThatCannotBeRead(t *testing.T) {
	var to strings.Builder
	err := copyLines(&to, unreadable{}, 4, unsynced{})
	require.ErrorIs(t, err, errFault)
	require.Empty(t, to.String())
}

// An overtaken file has its failed sync cured by somebody else before its Log
// goes on.
type overtaken struct {
	file
	cure func()
}

func (f overtaken) Unlock(at lockByte) error {
	err := f.file.Unlock(at)
	if at == syncLock {
		f.cure()
	}
	return err
}

// A Log that has let its descriptor go, and finds no file to open instead, has
// nothing to close.
func TestCloseWithoutADescriptor(t *testing.T) {
	d := newCacheDisk(t)
	first := d.create(t, SyncAlways)
	d.mutate = func(f file) file {
		return overtaken{obstinate{f, new(bool)}, func() { _ = d.root.Rename(workName, "moved") }}
	}
	l := d.open(t, SyncAlways)
	_, _, err := l.Append(t.Context(), []byte("no\n"), nil)
	require.ErrorIs(t, err, errFault)
	require.True(t, l.shut)
	closeAll(t, l, first)
}

// Lines whose sync fails are acknowledged if a sound copy holds them.
func TestFailedSyncIsOvertaken(t *testing.T) {
	d := newCacheDisk(t)
	other := d.create(t, SyncAlways)
	d.mutate = func(f file) file {
		return overtaken{f, func() {
			if d.marked(t) {
				mustAppend(t, other, "three\n")
			}
		}}
	}
	l := d.open(t, SyncAlways)
	d.mutate = nil
	d.setOp(failOnce("sync"))
	mustAppend(t, l, "two\n")
	d.setOp(nil)
	require.Nil(t, l.Failed())
	require.EqualValues(t, 1, other.Copies())
	_, _, err := l.Append(t.Context(), []byte("no\n"), nil)
	require.ErrorIs(t, err, ErrReplaced)
	wantDisk(t, d, workFirst+"two\nthree\n")
	closeAll(t, l, other)
}

// A file that begins as the log does and lacks its lines is a bad copy.
func TestTheCopyOfAnotherLacksLines(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	mustAppend(t, l, "interval\n")
	require.NoError(t, d.root.WriteFile("b", []byte(workFirst), 0o600))
	require.NoError(t, d.root.Rename("b", workName))
	failed, ok := errors.AsType[*NotDurableError](l.Flush(t.Context()))
	require.True(t, ok)
	require.ErrorContains(t, failed, "lacks them")
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"interval\n")
	closeAll(t, l)
}

// On a sound Log Recover is Flush.
func TestRecoverOfASoundLog(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	mustAppend(t, l, "one\n")
	require.NoError(t, l.Recover(t.Context()))
	require.Zero(t, l.Copies())
	wantDisk(t, d, workFirst+"one\n")
	closeAll(t, l)
}
