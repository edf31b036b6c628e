package guard_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
)

// partRow is an error about a part of a request, or one that only resembles such.
type partRow struct {
	Source, Type, Code, Text string
	Status                   int
	Refused                  string // as in an Overflow; or messages, window
}

func (r partRow) err() error { return parts{r.Status, r.Type, r.Code, r.Text} }

func partRows(t testing.TB, name string) (rows []partRow) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var r partRow
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		rows = append(rows, r)
	}
	require.GreaterOrEqual(t, len(rows), 30)
	return rows
}

// Errors about a part name that part, and errors that resemble them or overflows are
// neither.
func TestClassifyParts(t *testing.T) {
	for _, r := range partRows(t, "parts.jsonl") {
		got := guard.Classify(r.err())
		want := guard.Overflow{Kind: guard.Part, Refused: r.Refused}
		switch r.Refused {
		case "messages":
			want = guard.Overflow{Kind: guard.Messages}
		case "window":
			want = guard.Overflow{Kind: guard.Tokens}
		}
		if got.Kind != want.Kind || got.Refused != want.Refused {
			t.Errorf("%s: got %+v, want %+v", r.Text, got, want)
		}
	}
	for _, r := range partRows(t, "overflows.jsonl") {
		if got := guard.Classify(r.err()); !got.Kind.IsOverflow() {
			t.Errorf("%s (%s): got %+v", r.Text, r.Source, got)
		}
	}
	for _, r := range partRows(t, "lookalikes.jsonl") {
		if got := guard.Classify(r.err()); got.Kind != guard.NotOverflow {
			t.Errorf("%s (%s): got %+v", r.Text, r.Source, got)
		}
	}
}
