package storetest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// WantFork returns the expected fold of a fork at an entry: the fold of all batches up to
// the entry's batch, without an answer whose calls have no result.
func WantFork(t testing.TB, s *session.Session, id string) *rebuild.Fold {
	t.Helper()
	var prefix []transcript.Batch
	for b, err := range transcript.Batches(s.Scan(t.Context(), session.ScanOptions{})) {
		require.NoError(t, err)
		prefix = append(prefix, b)
		if slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return e.ID == id }) {
			break
		}
	}
	for {
		f := rebuild.New(nil)
		for _, b := range prefix {
			require.NoError(t, f.Add(b))
		}
		open := f.Pending().Calls
		if len(open) == 0 {
			return f
		}
		for !slices.ContainsFunc(prefix[len(prefix)-1].Entries, func(e transcript.Entry) bool {
			c, ok := e.Body.(transcript.MessageLine)
			return ok && c.Kind == transcript.TypeToolUse && c.Content[0].(transcript.ToolCallBlock).ID == open[len(open)-1].Call.ID
		}) {
			prefix = prefix[:len(prefix)-1]
		}
		prefix = prefix[:len(prefix)-1]
	}
}

// Encoded returns a history as JSON, without the ID of its last line.
func Encoded(t testing.TB, h rebuild.History) string {
	t.Helper()
	h.After = "" // a fork may not have this line
	data, err := json.Marshal(h)
	require.NoError(t, err)
	return string(data)
}
