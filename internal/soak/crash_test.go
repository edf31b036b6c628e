//go:build linux && (amd64 || arm64)

package soak_test

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

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// indexFiles are the files of the index, below the folder of an agent.
var indexFiles = []string{"sessions.jsonl"}

// survive opens a state and returns an error unless a store in it is sound.
func survive(c storetest.Crash, dir string, open storetest.Opener) error {
	if err := c.Image.Write(dir); err != nil {
		return err
	}
	opened := func(listed bool, f func(st *session.Store, w storetest.World) error) (w storetest.World, err error) {
		st, err := open(dir, nil)
		if err != nil {
			return w, err
		}
		w, err = storetest.Look(storetest.Background, st, listed)
		if err == nil && f != nil {
			err = f(st, w)
		}
		return w, errors.Join(err, st.Close())
	}
	first, err := opened(false, nil)
	if err == nil {
		err = first.Matches(c.Before, c.After)
	}
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	repaired, err := storetest.ReadImage(dir)
	if err != nil {
		return err
	}
	second, err := opened(true, nil)
	if err == nil {
		err = second.SameAgain(first)
	}
	if err != nil {
		return fmt.Errorf("opening again: %w", err)
	}
	again, err := storetest.ReadImage(dir)
	if err != nil {
		return err
	}
	if path, differs := again.Differs(repaired); differs {
		return fmt.Errorf("opening again changed %s from\n%q to\n%q", path, repaired[path], again[path])
	}
	if !c.Deep {
		return nil
	}
	var grown storetest.World
	_, err = opened(true, func(st *session.Store, _ storetest.World) error {
		s, err := st.Load(storetest.Background, storetest.CLI)
		if err != nil {
			return err
		}
		was, err := storetest.LookAt(storetest.Background, s)
		if err != nil {
			return err
		}
		if _, err := s.Append(storetest.Background, transcript.UserText("after the crash")); err != nil {
			return err
		}
		one, err := storetest.LookAt(storetest.Background, s)
		if err == nil && (len(one.Entries) != len(was.Entries)+1 || !strings.Contains(one.History, "after the crash")) {
			err = fmt.Errorf("%d entries became %d, and the history\n%s", len(was.Entries), len(one.Entries), one.History)
		}
		if err == nil {
			grown, err = storetest.Look(storetest.Background, st, true)
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
		err = last.SameAgain(grown)
	}
	if err != nil {
		return fmt.Errorf("without the index: %w", err)
	}
	return nil
}

// tryState is survive in a folder that it makes and removes.
func tryState(c storetest.Crash, dir string, open storetest.Opener) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	err := survive(c, dir, open)
	return errors.Join(err, os.RemoveAll(dir))
}

// again is how often a wrong state is tried again. A reader waits at most 100
// ms for a lock: on a stalled machine it may leave a tail as it is. A fault of
// the store shows every time.
const again = 4

// endure checks the states of a workload until limit of them are wrong for a
// reason that contains want. It returns how many it has tried and the reasons.
func endure(t testing.TB, wl storetest.Workload, policy session.SyncPolicy, m storetest.Mutant, which storetest.Sample, want string, limit int) (n int, broken []string) {
	t.Helper()
	base := storetest.Scratch(t)
	moments := storetest.Observe(t, wl, policy, m)
	open := m.Open
	if open == nil {
		open = session.Open
	}
	work := make(chan storetest.Crash)
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
					broken = append(broken, fmt.Sprintf("%s, cut in %s: %v", wl.Name, c.In, err))
					mu.Unlock()
				}
			}
		})
	}
	skip := 0
	storetest.Crashes(moments, policy == session.SyncNever, which, m.Early, func(c storetest.Crash) {
		if skip++; skip%which.N != 0 {
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
	which := storetest.Extent(*storetest.Faults, storetest.Sample{Moment: 9, Stride: 480, N: 14}, storetest.Sample{Moment: 2, Stride: 96, N: 1}, storetest.Sample{Moment: 1, Stride: 1, N: 1})
	want := storetest.Extent(*storetest.Faults, 90, 5_000, 100_000)
	var total atomic.Int64
	t.Cleanup(func() { // after the workloads
		t.Logf("%d states", total.Load())
		if total.Load() < int64(want) && !t.Failed() && !skipped(t) {
			t.Errorf("%d states, want %d: not everything was tried", total.Load(), want)
		}
	})
	for _, policy := range []session.SyncPolicy{session.SyncAlways, session.SyncNever} {
		for _, wl := range workloads {
			t.Run(policy.String()+"/"+wl.Name, func(t *testing.T) {
				t.Parallel()
				which := which
				if wl.Name == "large" && *storetest.Faults == "short" {
					which.Stride *= 8 // its states are costly to make
				}
				n, broken := endure(t, wl, policy, storetest.Mutant{}, which, "", 5)
				total.Add(int64(n))
				t.Logf("%d states", n)
				require.Empty(t, broken)
			})
		}
	}
}

// skipped reports whether there are no spies on this system.
func skipped(t testing.TB) bool {
	return errors.Is((&storetest.Spy{Dir: storetest.Scratch(t)}).Run(func() {}), storetest.ErrNoSpy)
}
