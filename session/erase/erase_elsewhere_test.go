package erase_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// A process that had a session open while another one archived, restored and erased it
// reads it again, so its next compaction cannot repeat an erased word.
func TestEraseElsewhereOfAnArchivedSession(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, s *session.Session){
		"after an append to the archive": func(t *testing.T, s *session.Session) {
			_, err := s.Append(t.Context(), transcript.UserText("too late"))
			require.ErrorIs(t, err, session.ErrArchived)
		},
		"after a read of the archive": func(t *testing.T, s *session.Session) {
			require.Contains(t, storetest.History(t, s), "sesame")
		},
	} {
		for _, archivedAgain := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", archived again: ", archivedAgain), func(t *testing.T) {
				dir := t.TempDir()
				here, there := storetest.Open(t, dir, storetest.Unsynced), storetest.Open(t, dir, storetest.Unsynced)
				s := storetest.Load(t, here, storetest.CLI)
				ids := storetest.Add(t, s, transcript.UserText("sesame"), storetest.Answer("open"))
				storetest.Add(t, s, transcript.UserText("and now"), storetest.Answer("closed"))
				require.Contains(t, storetest.History(t, s), "sesame")
				set := func(st *session.Store, to session.State) {
					require.NoError(t, st.SetState(t.Context(), s.Ref(), to, -1))
				}
				set(there, session.Archived)
				meet(t, s)
				set(there, session.Live)
				plan, err := erase.Preview(t.Context(), there, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[:1]}}})
				require.NoError(t, err)
				_, err = erase.Run(t.Context(), there, plan)
				require.NoError(t, err)
				if archivedAgain {
					set(there, session.Archived)
				}
				if _, err := s.History(t.Context()); err != nil {
					require.ErrorIs(t, err, session.ErrReplaced)
				}
				require.NotContains(t, storetest.History(t, s), "sesame")
				storetest.Close(t, here)
				storetest.Close(t, there)
			})
		}
	}
}

// A call that hides the replacement of a session from its caller does not hide it from the
// later calls of the process.
func TestEraseElsewhereBesideOtherCalls(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, st *session.Store, s *session.Session){
		"a loop over the entries after one": func(t *testing.T, _ *session.Store, s *session.Session) {
			for _, err := range s.Entries(t.Context(), s.Ref().ID) {
				require.NoError(t, err)
			}
		},
		"a list, which puts rows": func(t *testing.T, st *session.Store, _ *session.Session) {
			require.Len(t, storetest.ListIDs(t, st, nil), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			here, there := storetest.Open(t, dir, storetest.Unsynced), storetest.Open(t, dir, storetest.Unsynced)
			s := storetest.Load(t, here, storetest.CLI)
			ids := storetest.Add(t, s, transcript.UserText("sesame"), storetest.Answer("open"))
			require.Contains(t, storetest.History(t, s), "sesame")
			plan, err := erase.Preview(t.Context(), there, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[:1]}}})
			require.NoError(t, err)
			_, err = erase.Run(t.Context(), there, plan)
			require.NoError(t, err)
			call(t, here, s)
			if _, err := s.History(t.Context()); err != nil {
				require.ErrorIs(t, err, session.ErrReplaced)
			}
			require.NotContains(t, storetest.History(t, s), "sesame")
			storetest.Close(t, here)
			storetest.Close(t, there)
		})
	}
}
