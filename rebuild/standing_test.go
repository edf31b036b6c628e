package rebuild_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A compaction that was cut has repeated the state; nothing is doubled by that,
// nor after the next compaction.
func TestStandingAfterACutCompaction(t *testing.T) {
	n := 0
	f := rebuild.New(nil)
	add := func(complete int, items ...transcript.Item) {
		t.Helper()
		entries, err := transcript.NewBatch(testTime, func() string { n++; return fmt.Sprint("e", n) }, items...)
		require.NoError(t, err)
		if complete > 0 {
			entries = entries[:complete]
		}
		require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: complete == 0}))
	}
	add(0, transcript.UserText("a"))
	add(0, transcript.Value{Name: "s", Value: json.RawMessage(`1`)})
	add(0, transcript.Pin{Entry: "e1", Text: "a"})
	add(0, transcript.Queued{Content: []transcript.Block{transcript.TextBlock{Text: "q"}, transcript.TextBlock{Text: "r"}}})
	add(0, transcript.Draft{Key: "k", Text: "dra"})
	add(0, transcript.Draft{Key: "k", At: 3, Text: "f"})
	add(0, transcript.Draft{Key: "k", At: 3, Text: "ft"}) // the part is written again
	want := f.Standing()
	require.Equal(t, "draft", want.Draft.Text)
	for range 2 {
		add(0, transcript.Compaction{Summary: "s", FirstKept: "e1", Standing: want.Entries()})
		require.Equal(t, want, f.Standing())
	}
	first := rebuild.New(&rebuild.Options{Tail: true}) // of nothing else
	entries, err := transcript.NewBatch(testTime, func() string { return "c" }, transcript.Compaction{Summary: "s", FirstKept: "e1", Standing: want.Entries()})
	require.NoError(t, err)
	require.NoError(t, first.Add(transcript.Batch{Entries: entries, Complete: true}))
	require.Equal(t, want, first.Standing())
	add(0, transcript.Dequeued(transcript.UserText("q"), want.Queued[0].Entry), transcript.Pin{Entry: "e1", Off: true}, transcript.Value{Name: "s"})
	entries, err = transcript.NewBatch(testTime, func() string { return "answer" }, transcript.AssistantText("draft"))
	require.NoError(t, err)
	entries, err = transcript.WithIdem(entries, "k")
	require.NoError(t, err)
	require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: true}))
	got := f.Standing()
	require.Empty(t, got.Queued)
	require.Empty(t, got.Draft)
	require.Empty(t, got.Pins)
	require.Empty(t, got.Values)
}
