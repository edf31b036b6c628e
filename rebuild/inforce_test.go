package rebuild_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A transcript of the batches in force alone has the same history.
func FuzzInForce(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x00\x00\x05\x00\x06\x00\x00"))
	f.Add([]byte{0, 0, 0, 1, 2, 3, 0, 5, 2, 4, 1, 0, 0, 0, 0, 6, 0, 0, 0, 9, 0, 1, 2, 0, 8, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			t.Skip()
		}
		batches := script(data)
		whole := foldAll(t, nil, batches)
		ids := whole.InForce()
		header := transcript.Entry{ID: "s", Body: transcript.Header{Version: 1, Base: transcript.Link{Session: "base"}}}
		copies := []transcript.Batch{{Entries: []transcript.Entry{header}, Complete: true}}
		covers := false // the summary covers something
		for _, b := range batches {
			covers = covers || len(copies) == 1 && slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool {
				return !slices.Contains(ids, e.ID) && e.Type() != "custom" && whole.Live(e.ID)
			})
			if slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return slices.Contains(ids, e.ID) }) {
				copies = append(copies, b)
			}
		}
		if !covers && slices.ContainsFunc(copies, func(b transcript.Batch) bool { return b.Entries[0].Type() == "compaction" }) {
			t.Skip("in a copy, a compaction stands for something")
		}
		if slices.ContainsFunc(whole.Report(), func(r rebuild.Repair) bool { return r.Rule == "superseded-batch" }) {
			t.Skip("a compaction may cover what a retry has superseded")
		}
		if madeFromNothing(batches) {
			t.Skip("an answer names a line that no history is made of")
		}
		require.Equal(t, mustJSON(whole.History().Messages), mustJSON(foldAll(t, nil, copies).History().Messages))
	})
}

// madeFromNothing reports whether an answer names a line that no request is
// rendered from.
func madeFromNothing(batches []transcript.Batch) bool {
	shapes := map[string]bool{"": true}
	for _, b := range batches {
		for _, e := range b.Entries {
			switch body := e.Body.(type) {
			case transcript.Rewind, transcript.Custom:
			case transcript.MessageLine:
				if !shapes[body.Made.After] {
					return true
				}
				shapes[e.ID] = true
			default:
				shapes[e.ID] = true
			}
		}
	}
	return false
}

// A compaction that names one entry as the last that it covers and the first that
// it keeps is found by the former if no line of the history has that ID.
func TestInForceNamesWhatIsCovered(t *testing.T) {
	batch := func(id string, body transcript.Body) transcript.Batch {
		return transcript.Batch{Entries: []transcript.Entry{{ID: id, Body: body}}, Complete: true}
	}
	user := func(text string) transcript.MessageLine {
		return transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(transcript.TextBlock{Text: text})
	}
	f := foldAll(t, nil, []transcript.Batch{
		batch("s", transcript.Header{Version: 1}), batch("a", user("covered")), batch("x", transcript.Custom{Name: "x"}),
		batch("b", user("kept")), batch("c", transcript.Compaction{Summary: "S", FirstKept: "x", CoversTo: "x"}), batch("d", user("new")),
	})
	require.Equal(t, []string{"x", "b", "c", "d"}, f.InForce())
}
