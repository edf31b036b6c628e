//go:build linux && (amd64 || arm64)

package filelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/storetest"
)

// A crasher uses one log below a spy; crashes then cut that use short.
type crasher struct {
	naive
	dir   string
	spy   *storetest.Spy
	n     int // lines so far
	acked []acked
	err   error
}

// acked are lines that were acknowledged after some system calls.
type acked struct {
	calls      int
	start, end int64
	lines      string
}

// A naive writer differs from this package in one thing.
type naive struct {
	policy filelog.SyncPolicy
	skip   func(c storetest.Call) bool // a call that it leaves out
	early  bool                        // it acknowledges lines before it writes them
}

// lines returns new lines, of about size bytes each.
func (r *crasher) lines(n, size int) string {
	var b strings.Builder
	for range n {
		r.n++
		fmt.Fprintf(&b, `{"n":%d,"text":%q}`+"\n", r.n, strings.Repeat(fmt.Sprintf("%d \" \\ Zürich 北京 ", r.n), size/20+1))
	}
	return b.String()
}

func (r *crasher) note(calls int, start, end int64, lines string, err error) {
	if r.err = errors.Join(r.err, err); err == nil {
		r.acked = append(r.acked, acked{calls, start, end, lines})
	}
}

func (r *crasher) append(l *filelog.Log, lines string) {
	before := len(r.spy.Made())
	start, end, err := l.Append(context.Background(), filelog.Lines([]byte(lines)))
	if !r.early {
		before = len(r.spy.Made())
	}
	r.note(before, start, end, lines, err)
}

// use makes a log and uses it in every way. The sizes of its lines depend on seed.
func (r *crasher) use(seed int) error {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	first, opts := r.lines(1, 20), &filelog.Options{Sync: r.policy}
	l, err := filelog.Create(root, "a.jsonl", []byte(first), opts)
	if err != nil {
		return err
	}
	r.note(len(r.spy.Made()), 0, int64(len(first)), first, nil)
	other, err := filelog.Open(root, "a.jsonl", opts)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(1, uint64(seed)))
	size := func(most int) int { return 1 + rnd.IntN(most) }
	r.append(l, r.lines(1, size(200)))
	r.append(l, r.lines(1+size(4), size(300))) // a batch
	r.append(other, r.lines(1, size(600)))
	r.append(l, r.lines(1, size(1500)))
	r.tear(root) // another process dies in a write
	r.append(other, r.lines(2, size(200)))
	r.tear(root)
	_, _, err = l.Append(context.Background(), filelog.Lines(nil))
	r.append(l, r.lines(1, 1))
	if seed%8 == 0 {
		r.append(l, r.lines(4, 5000)) // large
	}
	r.append(other, r.lines(1, size(100)))
	return errors.Join(err, r.err, other.Close(), l.Close())
}

func (r *crasher) tear(root *os.Root) {
	f, err := root.OpenFile("a.jsonl", os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(`{"torn":`)
		err = errors.Join(err, f.Close())
	}
	r.err = errors.Join(r.err, err)
}

// crash uses a log, cuts the use after every system call that changes the disk, and
// returns the number of states and the faults that contain want. It stops after limit
// findings.
func crash(t *testing.T, seed, stride int, v naive, limit int, want string) (states int, broken []string) {
	t.Helper()
	r := &crasher{naive: v, dir: storetest.Scratch(t)}
	r.spy = &storetest.Spy{Dir: r.dir, Judge: func(c storetest.Call) storetest.Verdict {
		return storetest.Verdict{Skip: v.skip != nil && v.skip(c)}
	}}
	var err error
	storetest.Spied(t, r.spy.Run(func() { err = r.use(seed) }))
	require.NoError(t, err)
	dir, disk := storetest.Scratch(t), storetest.NewDisk()
	type key struct {
		sum   uint64
		acked int
	}
	seen, known := map[key]bool{}, 0
	try := func(moment string) {
		disk.States(v.policy == filelog.SyncNever, stride, func(img storetest.Image) {
			k := key{img.Sum(), known}
			if seen[k] || len(broken) >= limit {
				return
			}
			seen[k] = true
			states++
			if err := survive(dir, img, r.acked[:known]); err != nil && strings.Contains(err.Error(), want) {
				broken = append(broken, fmt.Sprintf("seed %d, after %s: %v", seed, moment, err))
			}
		})
	}
	for i, c := range r.spy.Made() {
		disk.Apply(c)
		try(c.Kind)
		for ; known < len(r.acked) && r.acked[known].calls <= i+1; known++ {
			disk.Apply(storetest.Call{}) // no kill tears the write of a finished call
		}
		try("the call")
	}
	return states, broken
}

// survive opens a state, appends to it, and opens it again.
func survive(dir string, img storetest.Image, promised []acked) error {
	content, there := img["a.jsonl"]
	if !there {
		if len(promised) > 0 {
			return fmt.Errorf("%d appends were acknowledged, and the file is gone", len(promised))
		}
		return nil
	}
	path := filepath.Join(dir, "a.jsonl")
	if err := errors.Join(holds(content, promised), os.WriteFile(path, content, 0o600)); err != nil {
		return err
	}
	want := bytes.Clone(content)
	if len(want) > 0 && want[len(want)-1] != '\n' {
		want = append(want, '\n')
	}
	for _, probe := range []string{`{"after":"the crash"}` + "\n", ""} {
		end, err := probed(dir, probe)
		if err == nil && end != int64(len(want)) {
			err = fmt.Errorf("the log ends at %d, want %d", end, len(want))
		}
		want = append(want, probe...)
		got, readErr := os.ReadFile(path)
		if err := errors.Join(err, readErr); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("the file ends in %.80q, want %.80q: glued, changed or repaired twice", got[max(0, len(got)-40):], want[max(0, len(want)-40):])
		}
		if err := holds(got, promised); err != nil {
			return err
		}
	}
	return nil
}

// probed opens the log, appends to it, and returns the end before.
func probed(dir, probe string) (end int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	l, err := filelog.Open(root, "a.jsonl", never)
	if err != nil {
		return 0, err
	}
	end, _, err = l.Append(context.Background(), filelog.Lines([]byte(probe)))
	return end, errors.Join(err, l.Close())
}

// holds returns an error unless each acknowledged line is in its place, once.
func holds(content []byte, promised []acked) error {
	for _, a := range promised {
		switch n := bytes.Count(content, []byte(a.lines)); {
		case a.end > int64(len(content)) || string(content[a.start:a.end]) != a.lines:
			return fmt.Errorf("acknowledged %.40q is not at %d", a.lines, a.start)
		case a.start > 0 && content[a.start-1] != '\n':
			return fmt.Errorf("acknowledged %.40q is glued to the line before it", a.lines)
		case n != 1:
			return fmt.Errorf("acknowledged %.40q is there %d times", a.lines, n)
		}
	}
	return nil
}

// TestCrash cuts the use of a log after every system call and within every write. TestCure
// does so for the cure of a failed sync.
func TestCrash(t *testing.T) {
	t.Parallel()
	runs := storetest.Extent(*storetest.Faults, 1, 1, 120)
	stride := storetest.Extent(*storetest.Faults, 4, 1, 1)
	for _, policy := range []filelog.SyncPolicy{filelog.SyncAlways, filelog.SyncNever} {
		n := 0
		for seed := 1; seed <= runs; seed++ {
			states, broken := crash(t, seed, stride, naive{policy: policy}, 10, "")
			require.Empty(t, broken)
			n += states
		}
		t.Logf("%v: %d states", policy, n)
		require.Greater(t, n, storetest.Extent(*storetest.Faults, 100, 1_000, 100_000), "not everything was tried")
	}
}

// The harness finds the fault of each naive writer.
func TestCrashHarnessBites(t *testing.T) {
	t.Parallel()
	noSync := func(part string) func(c storetest.Call) bool {
		return func(c storetest.Call) bool { return c.Kind == "sync" && strings.Contains(c.Path, part) }
	}
	for what, c := range map[string]struct {
		naive naive
		want  string
	}{
		"the folder is not synced":           {naive{skip: func(c storetest.Call) bool { return c.Kind == "sync" && c.Path == "." }}, "is gone"},
		"no sync before the acknowledgement": {naive{skip: noSync("a.jsonl")}, "is not at"},
		"renamed before it is synced":        {naive{skip: noSync(".tmp-")}, "is not at 0"},
		"acknowledged before it is written":  {naive{policy: filelog.SyncNever, early: true}, "is not at"},
	} {
		t.Run(what, func(t *testing.T) {
			states, broken := crash(t, 1, 32, c.naive, 1, c.want)
			require.NotEmpty(t, broken, "%d states, none broken because of %q", states, c.want)
			t.Logf("in %d states: %.200s", states, broken[0])
		})
	}
}
