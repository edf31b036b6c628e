package serve_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// The number of messages that an append returns counts all that are in no chapter or
// taken back, despite concurrent changes.
func TestMessageCount(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, nil)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "x"}, &session.CreateOptions{ID: "one"})
	require.NoError(t, err)
	type said struct{ user, closed bool }
	var all []said
	chapter := func() { // up to the last answer, or to its rest
		end := len(all)
		for end > 0 && all[end-1].user {
			end--
		}
		for i := range all[:end] {
			all[i].closed = true
		}
	}
	for range 120 {
		switch random.IntN(8) {
		case 0:
			done, err := memory.Commit(t.Context(), s, &memory.CommitOptions{KeepHistory: random.IntN(2) == 0})
			require.NoError(t, err)
			if done.Chapter != "" {
				chapter()
			}
			call(t, "GET", ts.URL+"/api/v1/sessions/one", nil) // which looks for commits
		case 1:
			_, err := s.Append(t.Context(), transcript.UserText("from elsewhere"))
			require.NoError(t, err)
			all = append(all, said{user: true})
		case 2:
			page, err := search.Page(t.Context(), s, "", -1)
			require.NoError(t, err)
			if n := len(all); n > 1 && !all[n-1].closed && !all[n-2].closed && len(page) == 1 {
				window, err := search.Page(t.Context(), s, page[0].ID, -1)
				require.NoError(t, err)
				require.NoError(t, s.Rewind(t.Context(), window[0].ID))
				all = all[:n-1]
			}
		}
		user := random.IntN(2) == 0
		role := map[bool]string{true: "user", false: "assistant"}[user]
		all = append(all, said{user: user})
		answer := decode(t, call(t, "POST", ts.URL+"/api/v1/sessions/one/messages", map[string]string{"role": role, "content": "x"}))
		want := 0
		for _, m := range all {
			if !m.closed {
				want++
			}
		}
		require.EqualValues(t, want, answer["result"].(map[string]any)["message_count"])
		got := decode(t, call(t, "GET", ts.URL+"/api/v1/sessions/one", nil))
		require.EqualValues(t, want, got["result"].(map[string]any)["message_count"])
	}
}
