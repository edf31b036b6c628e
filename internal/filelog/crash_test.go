package filelog

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// go test ./internal/filelog -faults=long does more and longer appends: a
// minute.
var faults = flag.String("faults", "short", "how many crashes the tests make: short, gate or long")

// crashRun is one use of a log that is recorded.
type crashRun struct {
	t    testing.TB
	p    *tape
	v    naive
	root *os.Root
	opts Options
	n    int
}

// lines returns lines that no other call returns, of about size bytes each.
func (r *crashRun) lines(n, size int) string {
	var b strings.Builder
	for range n {
		r.n++
		fmt.Fprintf(&b, `{"n":%d,"text":%q}`+"\n", r.n, strings.Repeat(fmt.Sprintf("%d \" \\ Zürich 北京 ", r.n), size/20+1))
	}
	return b.String()
}

func (r *crashRun) append(l *Log, lines string) {
	start, end, err := l.Append(context.Background(), Lines([]byte(lines)))
	if err == nil {
		r.p.ack(start, end, lines)
	}
}

// use makes a log and uses it in every way. The sizes of what it appends
// depend on seed.
func (r *crashRun) use(seed int) {
	first := r.lines(1, 20)
	l, err := Create(r.root, workName, []byte(first), &r.opts)
	if err != nil {
		return
	}
	r.p.ack(0, int64(len(first)), first)
	other, err := Open(r.root, workName, &r.opts)
	require.NoError(r.t, err)
	rnd := rand.New(rand.NewPCG(1, uint64(seed)))
	size := func(most int) int { return 1 + rnd.IntN(most) }
	r.append(l, r.lines(1, size(200)))
	r.append(l, r.lines(1+size(4), size(300))) // a batch
	r.append(other, r.lines(1, size(600)))
	r.append(l, r.lines(1, size(1500)))
	r.tear() // another process dies in a write
	r.append(other, r.lines(2, size(200)))
	r.tear()
	_, _ = l.Settle(context.Background())
	r.append(l, r.lines(1, 1))
	if seed%8 == 0 {
		r.append(l, r.lines(4, 5000)) // large
	}
	r.append(other, r.lines(1, size(100)))
	_ = other.Close() // what it has to say was said by Append
	_ = l.Close()
}

func (r *crashRun) tear() {
	f, err := r.root.OpenFile(workName, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(r.t, err)
	info, err := f.Stat()
	torn := []byte(workTorn)
	if err == nil {
		_, err = f.Write(torn)
	}
	require.NoError(r.t, errors.Join(err, f.Close()))
	r.p.add(moment{op: "write", off: info.Size(), data: torn})
}

// scratch returns a folder, in memory where that is possible.
func scratch(t testing.TB) *os.Root {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "filelog") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		dir = t.TempDir()
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := errors.Join(root.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return root
}

// A naive writer differs from this package in one thing.
type naive struct {
	mutate func(file) file
	drop   func(op string) bool
	failAt int
	policy driver.SyncPolicy

	recovers bool // the run is one with a Recover after the failed sync
	syncs    bool // which syncs again instead
}

// crash records a run, cuts it at every moment in every way, and returns how
// many states there were and what was wrong. It stops after limit findings, and
// ignores those that do not contain want.
func crash(t testing.TB, seed int, v naive, limit int, want string) (states int, broken []string) {
	t.Helper()
	r := &crashRun{t: t, v: v, p: &tape{drop: v.drop, failAt: v.failAt}, root: scratch(t)}
	r.p.root = r.root
	r.opts = Options{Sync: v.policy, seam: r.p.seam(v.mutate)}
	if v.recovers {
		r.recovers()
	} else {
		r.use(seed)
	}
	root := scratch(t)
	again := &Options{Sync: driver.SyncNever}
	if v.mutate != nil {
		again.seam = &seam{wrap: v.mutate}
	}
	type state struct {
		content string
		acked   int
	}
	seen := map[state]bool{}
	r.p.leftovers(v.policy == driver.SyncNever, func(l leftover) {
		s := state{string(l.content), len(l.acked)}
		if l.gone {
			s.content = "gone"
		}
		if seen[s] || len(broken) >= limit {
			return
		}
		seen[s] = true
		states++
		if err := l.survive(root, again); err != nil && strings.Contains(err.Error(), want) {
			broken = append(broken, fmt.Sprintf("after moment %d (%s): %v", l.after, r.p.moments[l.after].op, err))
		}
	})
	return states, broken
}

// survive opens a state, appends to it, and opens it again.
func (l leftover) survive(root *os.Root, opts *Options) error {
	if l.gone {
		if len(l.acked) > 0 {
			return fmt.Errorf("%d appends were acknowledged, and the file is gone", len(l.acked))
		}
		return nil
	}
	if err := root.WriteFile(workName, l.content, 0o600); err != nil {
		return err
	}
	if err := l.holds(l.content); err != nil {
		return err
	}
	want := bytes.Clone(l.content)
	if len(want) > 0 && want[len(want)-1] != '\n' {
		want = append(want, '\n')
	}
	const probe = `{"after":"the crash"}` + "\n"
	for round := range 2 {
		log, err := Open(root, workName, opts)
		if err != nil {
			return err
		}
		end, err := log.Settle(context.Background())
		if err == nil && end != int64(len(want)) {
			err = fmt.Errorf("round %d: settled at %d, want %d", round, end, len(want))
		}
		if err == nil && round == 0 {
			_, _, err = log.Append(context.Background(), Lines([]byte(probe)))
			want = append(want, probe...)
		}
		if err := errors.Join(err, log.Close()); err != nil {
			return err
		}
		got, err := root.ReadFile(workName)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("round %d: the file ends in %.80q, want %.80q: glued, changed or repaired twice", round, got[max(0, len(got)-40):], want[max(0, len(want)-40):])
		}
		if err := l.holds(got); err != nil {
			return err
		}
	}
	return nil
}

// TestCrash cuts the use of a log after every operation and within every
// write, at every byte.
func TestCrash(t *testing.T) {
	t.Parallel()
	runs, fails, want := 1, []int{4}, 6_000
	switch {
	case *faults == "gate":
		fails, want = []int{2, 4, 7}, 8_000
	case *faults == "long":
		runs, want = 120, 700_000
		fails = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	case brief || testing.Short():
		fails, want = nil, 5_000
	}
	total, began := 0, time.Now()
	for _, policy := range []driver.SyncPolicy{driver.SyncAlways, driver.SyncNever} {
		n := 0
		for seed := 1; seed <= runs; seed++ {
			states, broken := crash(t, seed, naive{policy: policy}, 10, "")
			for _, b := range broken {
				t.Errorf("%v, seed %d: %s", policy, seed, b)
			}
			n += states
		}
		t.Logf("%v: %d states", policy, n)
		total += n
	}
	// A failed sync: lines acknowledged before are there, and none after.
	for _, n := range fails {
		states, broken := crash(t, 1, naive{failAt: n}, 3, "")
		for _, b := range broken {
			t.Errorf("sync %d fails: %s", n, b)
		}
		total += states
	}
	t.Logf("%d states in %v", total, time.Since(began))
	if !t.Failed() {
		require.GreaterOrEqual(t, total, want, "not everything was tried")
	}
}

// A buffering file acknowledges what is still in memory.
type buffering struct {
	file
	buf *[]byte
}

func (b buffering) Write(p []byte) (int, error) {
	if len(*b.buf) > 0 {
		if _, err := b.file.Write(*b.buf); err != nil {
			return 0, err
		}
	}
	*b.buf = bytes.Clone(p)
	return len(p), nil
}

// dropNth leaves the operation of that name out when it comes for the nth time.
func dropNth(name string, n int) func(op string) bool {
	return func(op string) bool {
		if op == name {
			n--
		}
		return op == name && n == 0
	}
}

// wantBroken fails unless the harness finds the fault want with a naive writer.
func wantBroken(t *testing.T, v naive, want string) {
	t.Helper()
	states, broken := crash(t, 1, v, 1, want)
	require.NotEmpty(t, broken, "%d states, none broken because of %q", states, want)
	t.Logf("in %d states: %.200s", states, broken[0])
}

// The harness finds fault with naive writers.
func TestCrashHarnessBites(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		naive naive
		want  string
	}{
		"no look at the tail":                {naive{mutate: func(f file) file { return blind{f} }}, "glued"},
		"the folder is not synced":           {naive{drop: func(op string) bool { return op == "sync folder" }}, "is gone"},
		"no sync before the acknowledgement": {naive{drop: func(op string) bool { return op == "sync" }}, "is not at"},
		"renamed before it is synced":        {naive{drop: dropNth("sync", 1)}, "is not at 0"},
		"a failed sync is tried again":       {naive{failAt: 4, mutate: func(f file) file { return hopeful{f} }}, "is not at"},
		"acknowledged from a buffer":         {naive{policy: driver.SyncNever, mutate: func(f file) file { return buffering{f, new([]byte)} }}, "is not at"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			wantBroken(t, c.naive, c.want)
		})
	}
}
