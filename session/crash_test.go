//go:build linux && (amd64 || arm64)

package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// A moment is a call on the disk, or the beginning or the end of a step.
type moment struct {
	call  call
	begin string
	end   string
	world world // at the end
}

type opener = func(dir string, opts *session.Options) (*session.Store, error)

// A mutant makes a writer naive.
type mutant struct {
	judge func(c call) verdict
	open  opener
	early bool // a call is acknowledged when it begins
}

// observe runs a workload and returns its moments.
func observe(t testing.TB, wl workload, policy session.SyncPolicy, m mutant) []moment {
	t.Helper()
	dir := scratch(t)
	s := &spy{dir: dir, judge: m.judge}
	var all []moment
	flush := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.calls {
			all = append(all, moment{call: c})
		}
		s.calls = nil
	}
	w := &worker{dir: dir, sync: policy, open: m.open, clock: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	if w.open == nil {
		w.open = session.Open
	}
	known := world{}
	w.begin = func(name string) { flush(); all = append(all, moment{begin: name}) }
	w.end = func(name string, err error) error {
		flush()
		if err == nil && w.store != nil {
			known, err = look(bg, w.store, false)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, moment{end: name, world: known})
		return nil
	}
	var err error
	spied(t, s.run(func() { err = wl.run(w) }))
	require.NoError(t, err, wl.name)
	return all
}

// A crash is a state of the disk and the worlds that may be found in it.
type crash struct {
	img           image
	before, after world
	in            string // the step that was cut
	deep          bool   // append to it and lose the index, too
}

// crashes calls yield with every state after the moments of a sample, whatever
// its n.
func crashes(moments []moment, kill bool, which sample, early bool, yield func(crash)) {
	d := newDisk()
	none := world{}
	c := crash{before: none, after: none}
	type key struct {
		sum  uint64
		step int
	}
	done := map[key]bool{}
	for i, m := range moments {
		switch {
		case m.begin != "":
			c.in = m.begin
			for _, n := range moments[i:] {
				if n.end != "" {
					c.after = n.world
					break
				}
			}
			if early {
				c.before = c.after
			}
			continue
		case m.end != "":
			c.before, c.after, c.in = m.world, m.world, "after "+m.end
			d.last = call{} // the call has returned, so a kill tears nothing
		default:
			d.apply(m.call)
		}
		if i%which.moment != 0 {
			continue
		}
		step := 0
		for _, n := range moments[:i+1] {
			if n.begin != "" || n.end != "" {
				step++
			}
		}
		d.states(kill, which.stride, func(img image) {
			if !kill {
				img = img.rebooted()
			}
			k := key{img.sum(), step}
			if done[k] {
				return
			}
			done[k] = true
			c := c
			c.img, c.deep = img, len(done)%7 == 0
			yield(c)
		})
	}
}

// indexFiles are the files of the index, below the folder of an agent.
var indexFiles = []string{"sessions.jsonl"}

// survive opens a state and returns an error unless a store in it is sound.
func survive(c crash, dir string, open opener) error {
	if err := c.img.write(dir); err != nil {
		return err
	}
	opened := func(listed bool, f func(st *session.Store, w world) error) (w world, err error) {
		st, err := open(dir, nil)
		if err != nil {
			return w, err
		}
		w, err = look(bg, st, listed)
		if err == nil && f != nil {
			err = f(st, w)
		}
		return w, errors.Join(err, st.Close())
	}
	first, err := opened(false, nil)
	if err == nil {
		err = first.matches(c.before, c.after)
	}
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	repaired, err := readImage(dir)
	if err != nil {
		return err
	}
	second, err := opened(true, nil)
	if err == nil {
		err = second.sameAgain(first)
	}
	if err != nil {
		return fmt.Errorf("opening again: %w", err)
	}
	again, err := readImage(dir)
	if err != nil {
		return err
	}
	if path, differs := again.differs(repaired); differs {
		return fmt.Errorf("opening again changed %s from\n%q to\n%q", path, repaired[path], again[path])
	}
	if !c.deep {
		return nil
	}
	var grown world
	_, err = opened(true, func(st *session.Store, _ world) error {
		s, err := st.Load(bg, crashKey)
		if err != nil {
			return err
		}
		was, err := lookAt(bg, s)
		if err != nil {
			return err
		}
		if _, err := s.Append(bg, text("after the crash")); err != nil {
			return err
		}
		one, err := lookAt(bg, s)
		if err == nil && (len(one.entries) != len(was.entries)+1 || !strings.Contains(one.history, "after the crash")) {
			err = fmt.Errorf("%d entries became %d, and the history\n%s", len(was.entries), len(one.entries), one.history)
		}
		if err == nil {
			grown, err = look(bg, st, true)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("appending: %w", err)
	}
	// A lost index is made again from the transcripts.
	for _, name := range indexFiles {
		if err := os.Remove(filepath.Join(dir, "agents/main", name)); err != nil && !isMissing(err) {
			return err
		}
	}
	last, err := opened(true, nil)
	if err == nil {
		err = last.sameAgain(grown)
	}
	if err != nil {
		return fmt.Errorf("without the index: %w", err)
	}
	return nil
}

// tryState is survive in a folder that it makes and removes.
func tryState(c crash, dir string, open opener) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	err := survive(c, dir, open)
	return errors.Join(err, os.RemoveAll(dir))
}

// A sample says which states of a workload are tried. They are those after
// every moment-th moment, of writes torn every stride bytes, and of all these every n-th.
type sample struct{ moment, stride, n int }

// again is how often a state that is found to be wrong is tried again. A reader
// does not wait for a lock for more than 100 ms: on a machine that stands still
// it may leave a tail as it is. A fault of the store shows every time.
const again = 4

// endure checks the states of a workload until limit of them are wrong for a
// reason that contains want. It returns how many it has tried and the reasons.
func endure(t testing.TB, wl workload, policy session.SyncPolicy, m mutant, which sample, want string, limit int) (n int, broken []string) {
	t.Helper()
	base := scratch(t)
	moments := observe(t, wl, policy, m)
	open := m.open
	if open == nil {
		open = session.Open
	}
	work := make(chan crash)
	var mu sync.Mutex // guards broken
	var wg sync.WaitGroup
	for i := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range work {
				dir := filepath.Join(base, fmt.Sprint(i))
				err := tryState(c, dir, open)
				for try := 0; err != nil && want == "" && try < again; try++ {
					err = tryState(c, dir, open)
				}
				if err != nil && strings.Contains(err.Error(), want) {
					mu.Lock()
					broken = append(broken, fmt.Sprintf("%s, cut in %s: %v", wl.name, c.in, err))
					mu.Unlock()
				}
			}
		})
	}
	skip := 0
	crashes(moments, policy == session.SyncNever, which, m.early, func(c crash) {
		if skip++; skip%which.n != 0 {
			return
		}
		mu.Lock()
		enough := len(broken) >= limit
		mu.Unlock()
		if !enough {
			n++
			work <- c
		}
	})
	close(work)
	wg.Wait()
	return n, broken
}

// TestCrash cuts every workload after every call that changes the disk. Every
// entry acknowledged under SyncAlways survives a power cut in every state that
// the disk may show; under SyncNever it survives the end of the process.
func TestCrash(t *testing.T) {
	t.Parallel()
	which := extent(*faults, sample{6, 480, 5}, sample{2, 96, 1}, sample{1, 1, 1})
	want := extent(*faults, 400, 5_000, 100_000)
	var total atomic.Int64
	t.Cleanup(func() { // after the workloads
		t.Logf("%d states", total.Load())
		if total.Load() < int64(want) && !t.Failed() && !skipped(t) {
			t.Errorf("%d states, want %d: not everything was tried", total.Load(), want)
		}
	})
	for _, policy := range []session.SyncPolicy{session.SyncAlways, session.SyncNever} {
		for _, wl := range workloads {
			t.Run(policy.String()+"/"+wl.name, func(t *testing.T) {
				t.Parallel()
				which := which
				if wl.name == "large" && *faults == "short" {
					which.stride *= 8 // its states are dear to make
				}
				n, broken := endure(t, wl, policy, mutant{}, which, "", 5)
				total.Add(int64(n))
				t.Logf("%d states", n)
				require.Empty(t, broken)
			})
		}
	}
}

// spied skips the test if there are no spies on this system.
func spied(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNoSpy) {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// skipped reports whether there are no spies on this system.
func skipped(t testing.TB) bool {
	return errors.Is((&spy{dir: scratch(t)}).run(func() {}), errNoSpy)
}
