package session_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// waitSteps are appends and the step that the session then waits for.
var waitSteps = []struct {
	name string
	item func(call string) transcript.Item // of the entry ID of the call
	want rebuild.Wait
}{
	{"question", func(string) transcript.Item { return transcript.UserText("delete the logs") }, rebuild.WaitAnswer},
	{"call", func(string) transcript.Item { return storetest.Answer("", "c") }, rebuild.WaitTool},
	{"hold", func(c string) transcript.Item {
		return transcript.Decision{Call: c, CallID: "c", Verdict: transcript.Hold}
	}, rebuild.WaitApproval},
	{"approve", func(c string) transcript.Item {
		return transcript.Decision{Call: c, CallID: "c", Verdict: transcript.Approve}
	}, rebuild.WaitTool},
	{"dispatch", func(c string) transcript.Item { return transcript.Dispatch{Call: c, CallID: "c"} }, rebuild.WaitTool},
	{"result", func(string) transcript.Item { return transcript.ToolResult("c", "done") }, rebuild.WaitAnswer},
	{"answer", func(string) transcript.Item { return storetest.Answer("The logs are gone.") }, ""},
	{"queue", func(string) transcript.Item {
		return transcript.Queued{Content: transcript.UserText("and the cache").Content}
	}, rebuild.WaitAnswer},
	{"second call", func(string) transcript.Item { return storetest.Answer("", "d") }, rebuild.WaitTool},
	{"rejection", func(string) transcript.Item { return nil }, rebuild.WaitAnswer},
}

// listWaits returns the step by which a list finds the only session of a store.
func listWaits(t *testing.T, st *session.Store) (found rebuild.Wait) {
	t.Helper()
	for _, w := range []rebuild.Wait{rebuild.WaitApproval, rebuild.WaitTool, rebuild.WaitAnswer} {
		infos := storetest.List(t, st, &session.ListOptions{Waits: w})
		for _, i := range infos {
			require.Empty(t, found, "it is in two lists")
			require.Equal(t, w, i.Waits)
			found = w
		}
	}
	infos := storetest.List(t, st, &session.ListOptions{Waits: rebuild.WaitAny})
	require.Equal(t, found != "", len(infos) == 1)
	return found
}

// Each process lists a session by the step that it waits for, right after the append,
// even if the process that appended was killed or the index was lost.
func TestListWaits(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) } // no row is put for its age
	for name, storage := range map[string]func(t *testing.T) (st *session.Store, others func() []*session.Store){
		"files": func(t *testing.T) (*session.Store, func() []*session.Store) {
			dir := t.TempDir()
			open := func() *session.Store { return storetest.Open(t, dir, &session.Options{Now: now}) }
			other := open()
			t.Cleanup(func() { storetest.Close(t, other) })
			return open(), func() []*session.Store {
				lost := t.TempDir()
				require.NoError(t, os.CopyFS(lost, os.DirFS(dir)))
				require.NoError(t, filepath.WalkDir(lost, func(path string, _ fs.DirEntry, err error) error {
					if filepath.Base(path) == "sessions.jsonl" {
						return os.Remove(path)
					}
					return err
				}))
				return []*session.Store{open(), storetest.Open(t, lost, nil)}
			}
		},
		"memory": func(t *testing.T) (*session.Store, func() []*session.Store) {
			d := memdriver.New(nil)
			open := func() *session.Store {
				return session.OpenDriver(memdriver.Reopen(d), &session.Options{Now: now})
			}
			return open(), func() []*session.Store { return []*session.Store{open(), open()} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, others := storage(t)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			require.Empty(t, listWaits(t, st))
			first := ""
			for _, step := range waitSteps {
				call := ""
				if p, err := s.Pending(t.Context()); err == nil && len(p.Calls) > 0 {
					call = p.Calls[0].Entry
				}
				item := step.item(call)
				if item == nil {
					item = transcript.Decision{Call: call, CallID: "d", Verdict: transcript.Reject}
				}
				ids := storetest.Add(t, s, item)
				first = cmp.Or(first, ids[0])
				for _, other := range others() { // before the row is put
					require.Equal(t, step.want, listWaits(t, other), "%s, elsewhere", step.name)
					storetest.Close(t, other)
				}
				require.Equal(t, step.want, listWaits(t, st), step.name)
				require.Equal(t, step.want, storetest.Info(t, s).Waits, step.name)
			}
			fork := storetest.Fork(t, s, first, nil)
			require.Equal(t, rebuild.WaitAnswer, storetest.Info(t, fork).Waits)
		})
	}
}

// A list by steps reads only transcripts whose row is out of date, and those once.
func TestListWaitsReadsRows(t *testing.T) {
	d := memdriver.New(nil)
	killed := session.OpenDriver(d, nil)
	for i := range 20 {
		s := storetest.Create(t, killed, session.Key{Agent: "main"}, nil)
		storetest.Add(t, s, transcript.UserText("go"))
		if i%2 == 0 {
			storetest.Add(t, s, storetest.Answer("done"))
		}
	}
	for _, most := range []int{100, 0} {
		scans := 0
		st := session.OpenDriver(&storetest.Between{Driver: memdriver.Reopen(d), BeforeScan: func(session.Ref) error { scans++; return nil }}, nil)
		infos := storetest.List(t, st, &session.ListOptions{Waits: rebuild.WaitAnswer})
		require.Len(t, infos, 10)
		require.Equal(t, most > 0, scans > 0)
		require.LessOrEqual(t, scans, most)
		storetest.Close(t, st)
	}
}

// An unknown word in a list is an error that names the option.
func TestListWordUnknown(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	for member, opts := range map[string]*session.ListOptions{"waits": {Waits: "lunch"}, "state": {State: "lunch"}, "after": {After: "lunch"}} {
		_, err := st.List(t.Context(), opts)
		var invalid *session.InputError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, member, invalid.Member)
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
}
