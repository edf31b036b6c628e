package session_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// 16 goroutines write 200 sessions of 3 agents: no entry is lost, and none is in
// the wrong session.
func TestManySessions(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 3
	sessions := storetest.Extent(*storetest.Soak, 30, 100, 100)
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever, CachedSessions: 20})
	key := func(i int) session.Key {
		return session.Key{Agent: fmt.Sprint("agent", i%3), Channel: "test", Peer: fmt.Sprint("peer", i)}
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range sessions {
				s, err := st.Load(t.Context(), key((i+w*13)%sessions))
				if err != nil {
					t.Error(err)
					return
				}
				for n := range each {
					text := fmt.Sprintf("%s writer %d no %d", key((i+w*13)%sessions), w, n)
					if _, err := s.Append(t.Context(), transcript.UserText(text), transcript.AssistantText("ok")); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	storetest.Close(t, st)

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, sessions)
	for i := range sessions {
		s, err := storetest.Current(t.Context(), st, key(i))
		require.NoError(t, err)
		checkWriters(t, s, key(i).String(), writers, each)
		if info := storetest.Info(t, s); info.Messages != writers*each*2 || info.Turns != writers*each {
			t.Errorf("%s: %d messages, %d turns", key(i), info.Messages, info.Turns)
		}
	}
}

// checkWriters checks that every writer's texts are there once, in order, each
// directly followed by its answer.
func checkWriters(t *testing.T, s *session.Session, name string, writers, each int) {
	t.Helper()
	next := make([]int, writers)
	var before string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		f, ok := e.Body.(transcript.MessageLine)
		if !ok {
			continue
		}
		text := f.Message().Text()
		if f.Role == transcript.RoleAssistant {
			require.NotEmpty(t, before, name)
			before = ""
			continue
		}
		if before != "" {
			t.Fatalf("%s: %q came between a text and its answer", name, text)
		}
		var w, n int
		if _, err := fmt.Sscanf(text, name+" writer %d no %d", &w, &n); err != nil {
			t.Fatalf("%s has the foreign entry %q", name, text)
		}
		require.Equal(t, n, next[w], name)
		next[w]++
		before = text
	}
	for w, n := range next {
		if n != each {
			t.Errorf("%s: writer %d: %d of %d texts", name, w, n, each)
		}
	}
}

// Goroutines that load one new key get one session; handles share one state.
func TestLoadOneKey(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := st.Load(t.Context(), storetest.CLI)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.Ref().ID
			storetest.Add(t, s, transcript.UserText("hi"))
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Equal(t, len(ids), storetest.Info(t, storetest.Load(t, st, storetest.CLI)).Turns)
}

// Readers see whole batches while writers append.
func TestReadWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	other := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, st := range []*session.Store{st, other} {
		wg.Go(func() {
			r, err := st.Load(t.Context(), storetest.CLI)
			if err != nil {
				t.Error(err)
				return
			}
			for {
				h, err := r.History(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if n := len(h.Messages); n%2 != 0 {
					t.Errorf("a history of %d messages: half a batch", n)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 200 {
		storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	}
	close(done)
	wg.Wait()
	require.Equal(t, storetest.History(t, storetest.Load(t, other, storetest.CLI)), storetest.History(t, s), "the two stores do not agree at the end")
}
