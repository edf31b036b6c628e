package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// A ledger adds up the lines.
func TestLedger(t *testing.T) {
	n := 0
	var l ledger
	add := func(items ...transcript.Item) (ids []string) {
		t.Helper()
		entries, err := transcript.NewBatch(time.Unix(1, 0), func() string { n++; return fmt.Sprint("e", n) }, items...)
		require.NoError(t, err)
		for _, e := range entries {
			l.add(e)
			ids = append(ids, e.ID)
		}
		return ids
	}
	use := func(skill string, uris ...string) {
		u := transcript.Used{Contexts: uris}
		if skill != "" {
			u.Skill = &transcript.SkillUse{URI: skill, Input: "in"}
		}
		add(u)
	}
	add(transcript.UserText("a"))
	use("s", "a", "b")
	use("", "b", "c")
	require.Equal(t, transcript.CommitStats{Contexts: 3, Skills: 1}, l.stats())
	one := add(transcript.Commit{N: 1, LastEntry: "e1", Abstract: "A", Overview: "O", Stats: transcript.CommitStats{Commits: 1, Contexts: 3, Skills: 1}})[0]
	before := l
	use("s", "a")
	require.Equal(t, transcript.CommitStats{Commits: 1, Contexts: 3, Skills: 1}, before.stats())
	two := add(transcript.Commit{N: 2, Stats: transcript.CommitStats{Commits: 2, Contexts: 4, Skills: 2}, Open: []string{one}})[0]
	use("", "a", "d")
	use("", "a")
	add(transcript.Extracted{Commit: two, Counts: map[string]transcript.ExtractedCount{"cases": {Added: 2, Merged: 1, Skipped: 9}}})
	require.Equal(t, []string{one}, l.Open)
	require.Equal(t, transcript.CommitStats{Commits: 2, Contexts: 6, Skills: 2, Memories: 3}, l.stats())
	add(transcript.Extracted{Commit: one}, transcript.Extracted{Commit: two, Err: "once more"})
	require.Equal(t, []string{two}, l.Open)
}
