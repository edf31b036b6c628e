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

// An Update succeeds beside writers of other processes that never pause, and what it
// has decided on is what is in front of its lines.
func TestUpdateBesideBusyWriters(t *testing.T) {
	updates := map[string]int{"files": 20, "memory": 5}
	for name, open := range map[string]func(t *testing.T) func() *session.Store{
		"files": func(t *testing.T) func() *session.Store {
			dir := t.TempDir()
			return func() *session.Store {
				st, err := session.Open(dir, nil)
				require.NoError(t, err)
				return st
			}
		},
		"memory": func(t *testing.T) func() *session.Store {
			drv := memdriver.New(nil)
			return func() *session.Store { return session.OpenDriver(drv.Reopen(), nil) }
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
			for e, err := range s.Entries(t.Context()) {
				require.NoError(t, err)
				f, ok := e.Body.(transcript.Fragment)
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
