package compact_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// With the reading tools a compaction counts its omissions, over several compactions,
// names the entry of a paste, and explains the tools. Without them the summary stays as
// it was written.
func TestLeft(t *testing.T) {
	for _, offered := range []bool{false, true} {
		f, messages := rebuild.New(nil), 0
		opts := &compact.Options{Keep: compact.Keep{Turns: 2}, MaxCarried: 1_200, Recall: offered, Summarizer: says(nthSummary(1), nil)}
		var list []string
		for i := range 150 {
			list = append(list, fmt.Sprintf("Row %d of the list has nothing in it that another row has not.", i%7))
		}
		add(t, f, "first", transcript.UserText("We paint walls."), transcript.AssistantText("Yes."))
		add(t, f, "paste", transcript.UserText("Then paint wall in colour, unusual wish?\n"+strings.Join(list, " ")), transcript.AssistantText("A list."))
		for round := range 3 {
			for i := range 60 {
				id := fmt.Sprintf("r%d-%d", round, i)
				add(t, f, id, transcript.UserText(fmt.Sprintf("Unusual wish %d: paint wall %d in colour %d, then call Number%d.", i, i+round*100, i*7, i*3+round)),
					called(id, "read", fmt.Sprintf(`{"path":"/srv/%s/a file with a long name of its own.go"}`, id)), transcript.ToolResult(id, "package main"), transcript.AssistantText("Done."))
			}
			h := f.History()
			messages += compact.Plan(h, opts).At // the first message begins with the summary
			c, err := compactOnce(t, f, opts)
			require.NoError(t, err)
			text, left := recalltool.Cut(c.Summary)
			require.Equal(t, nthSummary(1), text)
			named := strings.Contains(rebuild.CarriedText(c), "of entry paste ...]")
			if !offered {
				require.Zero(t, left)
				require.NotContains(t, c.Summary, "recall_")
				require.False(t, named && round > 0)
				continue
			}
			require.Equal(t, messages, left.Messages)
			require.True(t, named)
			require.NotZero(t, left.Texts)
			require.Equal(t, 1, strings.Count(c.Summary, "recall_search"))
			read := 60*(round+1) - 2
			require.Equal(t, read-len(c.Files), left.Files, "round %d", round)
		}
	}
}

// A file counts once for each compaction that omits it, however often it was read, and a
// file that is carried does not count.
func TestLeftFiles(t *testing.T) {
	f := rebuild.New(nil)
	opts := &compact.Options{Keep: compact.Keep{Turns: 1}, MaxCarried: 1_200, Recall: true, Summarizer: says(nthSummary(1), nil)}
	mentions, carried := 0, map[string]bool{}
	for round := range 3 {
		read := maps.Clone(carried)
		for i := range 120 {
			id, path := fmt.Sprintf("r%d-%d", round, i), fmt.Sprintf("/srv/%d/a file with a long name of its own.go", i%60)
			add(t, f, id, transcript.UserText("Go on."), called(id, "read", fmt.Sprintf(`{"path":%q}`, path)), transcript.ToolResult(id, "package main"), transcript.AssistantText("Done."))
			read[path] = true
		}
		c, err := compactOnce(t, f, opts)
		require.NoError(t, err)
		clear(carried)
		for _, file := range c.Files {
			carried[file.Text] = true
		}
		mentions += len(read) - len(carried)
		_, left := recalltool.Cut(c.Summary)
		require.Equal(t, mentions, left.Files, "round %d", round)
		require.Contains(t, c.Summary, fmt.Sprintf(", %d mentions of files,", mentions))
	}
	require.Greater(t, mentions, 60, "more than there are files")
}
