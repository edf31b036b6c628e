package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// counted returns an Update that appends the number of messages as its text, and
// checks that no other line came between the View and its own.
func counted(t *testing.T, s *session.Session) (tries int) {
	t.Helper()
	_, err := s.Update(t.Context(), "count", func(v *session.View) ([]transcript.Item, error) {
		tries++
		info, err := v.Info()
		return []transcript.Item{transcript.UserText(fmt.Sprint("count ", info.Messages))}, err
	})
	require.NoError(t, err)
	return tries
}

// An Update succeeds although writers of other processes never pause, and its
// decision is about the lines right before its own.
func TestUpdateBesideBusyWriters(t *testing.T) {
	updates := map[string]int{"files": 10, "memory": 5}
	for name, open := range map[string]func(t *testing.T) func() *session.Store{
		"files": func(t *testing.T) func() *session.Store {
			dir := t.TempDir()
			return func() *session.Store {
				st := storetest.Open(t, dir, nil)
				return st
			}
		},
		"memory": func(t *testing.T) func() *session.Store {
			drv := memdriver.New(nil)
			return func() *session.Store { return session.OpenDriver(memdriver.Reopen(drv), nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			open := open(t)
			st := open()
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			var stop atomic.Bool
			var group, started sync.WaitGroup
			for range 2 {
				started.Add(1)
				group.Go(func() {
					other := open()
					defer other.Close()
					theirs, err := other.Load(context.Background(), storetest.CLI)
					for n := 0; err == nil && !stop.Load(); n++ {
						if _, err = theirs.Append(context.Background(), transcript.UserText("busy")); n == 0 {
							started.Done()
						}
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			started.Wait()
			most, all := 0, 0
			for range updates[name] {
				tries := counted(t, s)
				most, all = max(most, tries), all+tries
			}
			stop.Store(true)
			group.Wait()
			t.Logf("%d updates took %d tries, one of them %d", updates[name], all, most)
			require.LessOrEqual(t, most, 4, "tries of an Update")
			n := 0
			for e, err := range s.Entries(t.Context(), "") {
				require.NoError(t, err)
				f, ok := e.Body.(transcript.MessageLine)
				if !ok {
					continue
				}
				if text := f.Message().Text(); strings.HasPrefix(text, "count ") {
					require.Equal(t, fmt.Sprint("count ", n), text)
				}
				n++
			}
		})
	}
}

// Updates of one process take turns with its appends: each is decided once.
func TestUpdateBesideAppends(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if _, err := s.Append(context.Background(), transcript.UserText("busy")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		require.Equal(t, 1, counted(t, s))
	}
	group.Wait()
}

// An Update completes a compaction, with the state in force, and refuses one that would
// replace messages that its summary has not read.
func TestUpdateCompletesCompaction(t *testing.T) {
	var done []transcript.Compaction
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
		if e.Kind == session.EventCompactionDone {
			done = append(done, e.Compaction)
		}
		return ctx
	}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.System{Text: "Be brief."}, transcript.Value{Name: "mood", Value: []byte(`"calm"`)}, transcript.Calibration{Failures: 2, FailedAt: 10})
	storetest.Talk(t, s, 0, 2)
	call := storetest.Add(t, s, transcript.UserText("look"), storetest.Answer("", "c1"))[1]
	kept := storetest.Add(t, s, transcript.UserText("kept"), storetest.Answer("yes"))[0]
	compaction := transcript.Compaction{Summary: "They talked.", FirstKept: kept, CoversTo: call}
	compacted := func(c transcript.Compaction) error {
		return storetest.ErrOf(s.Update(t.Context(), "compact", func(*session.View) ([]transcript.Item, error) {
			return []transcript.Item{c}, nil
		}))
	}
	early := compaction
	early.CoversTo = ""
	require.ErrorIs(t, compacted(early), session.ErrConflict)
	late := storetest.Add(t, s, transcript.ToolResult("c1", "found"))[0]
	require.ErrorIs(t, compacted(compaction), session.ErrConflict)
	compaction.FirstKept, compaction.CoversTo = storetest.Add(t, s, transcript.UserText("last"), storetest.Answer("yes"))[0], late
	compaction.Standing = []transcript.Entry{{Body: transcript.Calibration{Failures: 3}}}
	turns := storetest.Info(t, s).Turns
	require.NoError(t, compacted(compaction))
	require.NoError(t, storetest.ErrOf(s.Update(t.Context(), "note", func(*session.View) ([]transcript.Item, error) {
		return []transcript.Item{transcript.Custom{Name: "note"}}, nil
	})))
	require.Len(t, done, 1, "the one that was stored")
	require.Positive(t, done[0].TokensBefore)
	require.NoError(t, s.View(t.Context(), func(v *session.View) error {
		c := v.Fold().History().Compaction
		require.NotNil(t, c)
		require.Equal(t, turns, v.Fold().Turns())
		require.Positive(t, c.TurnsBefore)
		require.Positive(t, c.TokensBefore)
		require.Positive(t, c.TokensAfter)
		standing := v.Fold().Standing()
		require.Len(t, standing.Values, 1)
		require.Equal(t, []transcript.Calibration{{Failures: 3, FailedAt: c.TokensAfter}}, standing.Calibrations)
		require.Contains(t, v.Fold().History().SystemPrompt(""), "Be brief.")
		return nil
	}))
	h := storetest.History(t, s)
	require.Contains(t, h, "They talked.")
	require.Contains(t, h, "last")
	require.NotContains(t, h, "kept")
}
