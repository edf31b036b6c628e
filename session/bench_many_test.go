package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A store of many sessions. The first benchmark that needs it makes it.
func BenchmarkManySessions(b *testing.B) {
	const count = 100_000
	dir := b.TempDir()
	var refs []session.Ref
	populated := func(b *testing.B) {
		b.Helper()
		if refs == nil {
			refs = populate(b, dir, []string{"main"}, count)
		}
	}
	// The newest 50, against decoding all rows with encoding/json.
	b.Run("100000sessions/list50", func(b *testing.B) {
		populated(b)
		listNewest(b, dir, count)
	})
	b.Run("100000sessions/append/1KiB/unsynced", func(b *testing.B) {
		populated(b)
		st := benchStore(b, dir, storetest.Unsynced)
		s := get(b, st, refs[count/2])
		storetest.Add(b, s, transcript.UserText("so that the index is in order"))
		alone := benchStore(b, b.TempDir(), storetest.Unsynced)
		storetest.Versus(b, 64, storetest.Side{Call: appendText(b, s)}, appendFresh(b, alone))
	})
	// Enough appends that the index is rewritten several times.
	b.Run("100000sessions/append/1KiB/unsynced/mean", func(b *testing.B) {
		populated(b)
		st := benchStore(b, dir, storetest.Unsynced)
		var few []*session.Session
		for _, ref := range refs[:100] {
			few = append(few, get(b, st, ref))
		}
		next, bare := 0, newBareLog(b)
		var all storetest.Contest
		for b.Loop() {
			for range 2_000 {
				all.Op = all.Op.Block(b, 100, func() error {
					next++
					return appendText(b, few[next%len(few)])()
				})
				all.Base = all.Base.Block(b, 100, func() error { return bare.append(storetest.KibText) })
			}
		}
		b.ReportMetric(all.Op.Mean()/all.Base.Mean(), "x-baseline-mean")
		b.ReportMetric(all.Op.Mean(), "ns-mean")
		b.ReportMetric(all.Base.Mean(), "ns-baseline-mean")
		b.ReportMetric(float64(slices.Max(all.Op).Milliseconds()), "ms-longest")
		b.ReportMetric(float64(slices.Max(all.Base).Milliseconds()), "ms-baseline-longest")
		b.ReportMetric(0, "ns/op") // meaningless: the sum of both sides
	})
	b.Run("100000sessions/idle", func(b *testing.B) {
		populated(b)
		idle(b, dir, refs)
	})
}

// populate makes sessions with one message each, the agents taking turns.
func populate(b *testing.B, dir string, agents []string, count int) (refs []session.Ref) {
	b.Helper()
	st := storetest.Open(b, dir, storetest.Unsynced)
	defer storetest.Close(b, st)
	for i := range count {
		key := session.Key{Agent: agents[i%len(agents)], Channel: "web", Peer: fmt.Sprintf("user-%06d", i)}
		s := storetest.Load(b, st, key)
		storetest.Add(b, s, transcript.UserText(fmt.Sprintf("Question %d: why does the build fail?", i)))
		refs = append(refs, s.Ref())
	}
	return refs
}

func get(b *testing.B, st *session.Store, ref session.Ref) *session.Session {
	b.Helper()
	s, err := st.Get(b.Context(), ref)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func listNewest(b *testing.B, dir string, count int) {
	var st *session.Store
	release := func() error {
		defer func() { st = nil }()
		if st == nil {
			return nil
		}
		return st.Close()
	}
	storetest.Versus(b, 1,
		storetest.Side{
			Prepare: release,
			Call: func() (err error) {
				if st, err = session.Open(dir, storetest.Unsynced); err != nil {
					return err
				}
				infos, err := st.List(b.Context(), &session.ListOptions{Limit: 50})
				if err == nil && len(infos) != 50 {
					err = fmt.Errorf("%d sessions in the list", len(infos))
				}
				return err
			},
		},
		storetest.Side{
			Prepare: release,
			Call: func() error {
				data, err := os.ReadFile(filepath.Join(dir, "agents", "main", "sessions.jsonl"))
				if err != nil {
					return err
				}
				rows := map[string]driver.Row{}
				for line := range bytes.Lines(data) {
					var doc struct{ Row driver.Row }
					if err := json.Unmarshal(line, &doc); err != nil {
						return err
					}
					if doc.Row.ID != "" {
						rows[doc.Row.ID] = doc.Row
					}
				}
				if len(rows) < count {
					return fmt.Errorf("%d sessions in the index", len(rows))
				}
				return nil
			},
		})
	if err := release(); err != nil {
		b.Fatal(err)
	}
}

// idle touches every session once and reports the rest: goroutines,
// open files, and bytes on the heap, those of the index included.
func idle(b *testing.B, dir string, refs []session.Ref) {
	var heap, index, files, goroutines float64
	for b.Loop() {
		before, routines, open := storetest.HeapBytes(), runtime.NumGoroutine(), openFiles()
		st, err := session.Open(dir, storetest.Unsynced)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := storetest.Current(b.Context(), st, session.Key{Agent: "main", Channel: "web", Peer: "user-000000"}); err != nil {
			b.Fatal(err)
		}
		index = float64(storetest.HeapBytes()) - float64(before)
		for _, ref := range refs {
			get(b, st, ref)
		}
		heap = float64(storetest.HeapBytes()) - float64(before)
		goroutines = float64(runtime.NumGoroutine() - routines)
		files = float64(openFiles() - open)
		storetest.Close(b, st)
	}
	b.ReportMetric(heap/1e6, "MB")
	b.ReportMetric(index/1e6, "MB-index")
	b.ReportMetric(heap/float64(len(refs)), "B/session")
	b.ReportMetric(goroutines, "goroutines")
	b.ReportMetric(files, "files")
}

// openFiles is the number of open descriptors, 0 where it is unknown.
func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// Sessions of many agents, against as many of one.
func BenchmarkManyAgents(b *testing.B) {
	const count = 1_000
	var agents []string
	for i := range count {
		agents = append(agents, fmt.Sprintf("agent-%04d", i))
	}
	b.Run("append/1KiB/unsynced/1000agents", func(b *testing.B) {
		opts := *storetest.Unsynced
		opts.CachedSessions = 2 * count
		var sides [2]storetest.Side
		for i, names := range [][]string{agents, agents[:1]} {
			dir := b.TempDir()
			refs := populate(b, dir, names, count)
			st := benchStore(b, dir, &opts)
			s := get(b, st, refs[0])
			for _, ref := range refs { // open all agents
				get(b, st, ref)
			}
			sides[i] = storetest.Side{Call: appendText(b, s)}
		}
		storetest.Versus(b, 64, sides[0], sides[1])
	})
}
