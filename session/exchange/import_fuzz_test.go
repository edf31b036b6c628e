package exchange_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/exchange"
)

// The imported session of any file has the history of the file, and nothing is
// imported twice.
func FuzzImport(f *testing.F) {
	for _, data := range treeOf(f, samples) {
		if strings.HasPrefix(data, "{") && len(data) < 5_000 {
			f.Add([]byte(data))
		}
	}
	native := `{"type":"session","id":"s","ts":"2026-03-01T09:00:00Z","v":1,"key":"main:cli:a","gen":1}
{"type":"assistant","id":"a","ts":"2026-03-01T09:00:00Z","batch":3,"idem":"k","content":[]}
{"type":"tool_use","id":"b","ts":"2026-03-01T09:00:00Z","part":2,"mid":"a","tool_use_id":"t","name":"f","input":{},"src":"x"}
{"type":"assistant","id":"c","ts":"2026-03-01T09:00:00Z","batch":2,"idem":"k","content":[]}
{"type":"tool_use","id":"d","ts":"2026-03-01T09:00:00Z","part":2,"mid":"c","tool_use_id":"t","name":"f","input":{},"extra":{"src":1}}
{"type":"tool_result","id":"e","ts":"2026-03-01T09:00:00Z","tool_use_id":"t","content":"long"}
{"type":"clip","id":"g","clips":[{"entry":"e","content":"short"}]}
{"type":"compaction","id":"h","summary":"S","firstKeptEntryId":"d","coversTo":"c"}
{"type":"rewind","id":"i","to":"e"}
`
	f.Add([]byte(native))
	f.Fuzz(func(t *testing.T, data []byte) {
		files := fstest.MapFS{"file.jsonl": {Data: data}}
		st := inMemory()
		report, err := exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
		for _, im := range report {
			if im.Err != nil {
				continue
			}
			history, full := importedHistory(t, st, im.Session)
			require.Equal(t, sourceHistory(t, im.Source, nil), history)
			require.Equal(t, sourceHistory(t, im.Source, &rebuild.Options{Full: true}), full)
		}
		if err != nil && (errors.Is(err, exchange.ErrDiverged) || errors.Is(err, os.ErrNotExist)) {
			t.Fatal(err)
		}
		again, _ := exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
		for i, im := range again {
			if im.Created || im.Appended != 0 || (im.Err == nil) != (report[i].Err == nil) {
				t.Fatalf("again: %+v", im)
			}
		}
	})
}
