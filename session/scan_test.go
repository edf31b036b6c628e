package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A scan of a session's own lines leaves out the copied ones, in both directions, and
// nothing of a session that is no fork.
func TestScanOwn(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	own := storetest.Add(t, fork, transcript.UserText("three"))
	for _, backward := range []bool{false, true} {
		texts := func(s *session.Session) (found []string) {
			for rec, err := range s.Scan(t.Context(), session.ScanOptions{Own: true, Backward: backward}) {
				require.NoError(t, err)
				if _, ok := rec.Entry.Body.(transcript.MessageLine); ok {
					found = append(found, rec.Entry.ID)
				}
			}
			return found
		}
		require.Equal(t, own, texts(fork))
		require.ElementsMatch(t, ids, texts(s))
	}
}
