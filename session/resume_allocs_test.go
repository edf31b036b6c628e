package session_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/transcript"
)

// The cost of resuming a session by its ID depends on its history, not on the part
// before a compaction, with or without an index.
func TestResumeCostsItsHistory(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	resumed := func(turns int, index bool) float64 {
		dir := t.TempDir()
		st := storetest.Open(t, dir, storetest.Unsynced)
		s := storetest.Load(t, st, storetest.CLI)
		var kept []string
		for range turns {
			kept = storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
		}
		storetest.Add(t, s, transcript.Compaction{Summary: "s", FirstKept: kept[0], TurnsBefore: storetest.Info(t, s).Turns, TokensBefore: 1, TokensAfter: 1})
		ref := s.Ref()
		storetest.Close(t, st)
		return testing.AllocsPerRun(5, func() {
			if !index {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "agents/main/sessions.jsonl")))
			}
			st := storetest.Open(t, dir, storetest.Unsynced)
			defer storetest.Close(t, st)
			s = mustGet(t, st, ref)
			h, err := s.History(t.Context())
			require.NoError(t, err)
			require.Len(t, h.Messages, 2)
		})
	}
	for _, index := range []bool{true, false} {
		short, long := resumed(10, index), resumed(1_000, index)
		t.Logf("allocations of a resume after 10 and 1,000 turns, index %v: %v and %v", index, short, long)
		require.LessOrEqual(t, long, 1.2*short, "index %v", index)
	}
}
