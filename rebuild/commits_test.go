package rebuild_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// The commits and usage that a compaction repeats are the same as before it.
func TestCommits(t *testing.T) {
	n := 0
	f := rebuild.New(nil)
	add := func(items ...transcript.Item) (ids []string) {
		t.Helper()
		entries, err := transcript.NewBatch(testTime, func() string { n++; return fmt.Sprint("e", n) }, items...)
		require.NoError(t, err)
		require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: true}))
		for _, e := range entries {
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
	require.Equal(t, transcript.CommitStats{Contexts: 3, Skills: 1}, f.Standing().Stats())
	one := add(transcript.Commit{Archive: "archive_001", N: 1, LastEntry: "e1", Abstract: "A", Overview: "O", Stats: transcript.CommitStats{Commits: 1, Contexts: 3, Skills: 1}})[0]
	use("s", "a")
	two := add(transcript.Commit{Archive: "archive_002", N: 2, Stats: transcript.CommitStats{Commits: 2, Contexts: 4, Skills: 2}, Open: []string{one}})[0]
	use("", "a", "d")
	use("", "a")
	add(transcript.Extracted{Commit: two, Counts: map[string]transcript.ExtractedCount{"cases": {Added: 2, Merged: 1, Skipped: 9}}})
	want := f.Standing()
	require.Equal(t, []string{one}, want.Commit.Open)
	require.Equal(t, transcript.CommitStats{Commits: 2, Contexts: 6, Skills: 2, Memories: 3}, want.Stats())
	require.Len(t, want.Used, 1)
	for range 2 {
		add(transcript.Compaction{Summary: "s", CoversTo: "e1", Standing: f.Standing().Entries()})
		require.Equal(t, want, f.Standing())
	}
	add(transcript.Extracted{Commit: one}, transcript.Extracted{Commit: two, Err: "once more"})
	require.Equal(t, []string{two}, f.Standing().Commit.Open)
	add(transcript.Compaction{Summary: "s", CoversTo: "e1", Standing: f.Standing().Entries()})
	require.Equal(t, []string{two}, f.Standing().Commit.Open)

	// Another program counts in the names of its archives.
	add(transcript.Commit{Archive: "history/archive_007"})
	require.Equal(t, 7, f.Standing().Commit.N)
	require.Equal(t, 3, f.Standing().Stats().Commits)
	add(transcript.Commit{Archive: "archive_99999999999999999999"})
	require.Equal(t, 8, f.Standing().Commit.N)
	add(transcript.Commit{})
	require.Equal(t, transcript.CommitStats{}, f.Standing().Stats())
}
