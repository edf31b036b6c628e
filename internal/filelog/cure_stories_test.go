package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A cureRun is one story of a failed sync on a disk that heals at once. It
// collects the acknowledged lines, and the lines that a power cut would take.
type cureRun struct {
	t     *testing.T
	d     *cacheDisk
	v     variant
	acked []string
	wrong []string
}

// A variant is this package without one of its rules. The zero value is the
// unchanged package.
type variant struct {
	recover   func(d *cacheDisk, l *Log)    // before Recover, or instead of it
	naive     bool                          // instead of it
	flush     func(l *Log)                  // before a Flush
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
	return r.d.open(r.t, policy)
}

// append appends a line and notes that it was acknowledged, if it was.
func (r *cureRun) append(l *Log, line string) error {
	_, _, err := l.Append(context.Background(), Lines([]byte(line)))
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
	e, ok := errors.AsType[*driver.NotDurableError](err)
	require.True(r.t, ok && !e.Refused, "Append with a failing sync = %v", err)
}

// flushAll acknowledges everything readers see.
func (r *cureRun) flushAll(l *Log) error {
	err := l.Flush(context.Background())
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

// check notes the lines that a power cut would take.
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

// The stories. Each is one course of events after a failed sync.
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
		_, _, err := other.Append(context.Background(), Lines([]byte("foreign\n")))
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
		r.check("after Flush")
	},
	"another process vouches for what it reads": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		r.fail(l, "two\n")
		r.d.kill()
		r.must("flush", r.flushAll(r.open(SyncAlways)))
		r.check("after Flush")
	},
	"a log that was open all the time goes on": func(r *cureRun) {
		l := r.d.create(r.t, SyncAlways)
		other := r.open(SyncAlways)
		r.must("append", r.append(other, "one\n"))
		r.fail(l, "two\n")
		r.must("append", r.append(other, "three\n"))
		r.must("flush", r.flushAll(other))
		r.check("after Flush")
		r.must("recover", r.recover(l)) // it finds its line in the copy
		r.must("append", r.append(l, "four\n"))
		r.check("after Recover")
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
		if _, ok := errors.AsType[*driver.NotDurableError](err); !ok {
			r.wrong = append(r.wrong, fmt.Sprintf("Flush = %v", err))
		}
		if _, _, err := other.Append(context.Background(), Lines([]byte("no\n"))); !isRefused(err) {
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

// killed plays a cure that is killed before its operation n, in the process of the
// failed log; then another process continues and the power is cut. It reports
// whether the cure had n operations.
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

// tell runs all stories, with kills at every step, and returns the faults.
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

// Whatever happens to a cure, no acknowledged line is lost.
func TestCure(t *testing.T) {
	t.Parallel()
	wrong, runs := tell(t, variant{})
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d runs", runs)
	require.Greater(t, runs, 10, "the kills are not injected")
}

// Variants that mutate a file.
type (
	unmarking struct{ file } // never sets the mark
	unlocked  struct{ file } // does not lock a temporary file
)

func (f unmarking) Mark(on bool) error {
	if on {
		return nil
	}
	return f.file.Mark(on)
}

func (f unlocked) Lock(shared bool) (bool, error) {
	if _, err := f.Lookup(); err != nil {
		return true, nil
	}
	return f.file.Lock(shared)
}

// rewrite writes the visible content over itself, and syncs it.
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

// rewriteAndDrop also empties the cache and reads back, until the content looks
// good. The page of the end stays in the cache.
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
		"the sync is tried again":                         {variant{naive: true, recover: func(_ *cacheDisk, l *Log) { _ = l.file().Sync() }}, taken},
		"what is cached is written again in place":        {variant{naive: true, recover: rewrite}, taken},
		"what is cached is written again, and read back":  {variant{naive: true, recover: rewriteAndDrop}, taken},
		"the mark is not set":                             {variant{mutate: func(f file) file { return unmarking{f} }}, taken},
		"the mark is cleared before the folder is synced": {variant{beforeFix: unmarkEarly}, taken},
		"a cure does not lay its own lines over":          {variant{recover: func(_ *cacheDisk, l *Log) { l.unsynced = unsynced{} }}, taken},
		"a copy by others is not compared":                {variant{flush: func(l *Log) { l.unsynced = unsynced{} }}, taken},
		"the temporary file is not locked":                {variant{mutate: func(f file) file { return unlocked{f} }}, "no such file"},
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
