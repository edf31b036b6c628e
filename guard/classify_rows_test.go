package guard_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
)

// row is an error in the words of a family of services, made up, with the
// expected result.
type row struct {
	From, Type, Code, Text string
	Refused                string
	Status                 int
	Kind                   guard.Kind
	Prompt, Limit, Output  int
	AtLeast                bool
	Path                   string
}

// parts is an error whose parts are in fields, as in most SDKs.
type parts struct {
	Status              int
	Type, Code, Message string
}

func (p parts) Error() string { return p.Message }

// The rows of testdata/refusals.jsonl, as parts of an error and as a text.
func TestClassifyRows(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "refusals.jsonl"))
	require.NoError(t, err)
	seen := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); seen++ {
		var r row
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		want := guard.Overflow{Kind: r.Kind, Refused: r.Refused, Prompt: r.Prompt, Limit: r.Limit, Output: r.Output, AtLeast: r.AtLeast, Path: r.Path}
		got := map[string]guard.Overflow{
			"parts": guard.Classify(parts{r.Status, r.Type, r.Code, r.Text}),
		}
		if r.Code == "" && r.Type == "" && r.Status != 413 && r.Status != 429 && r.Status != 402 {
			got["text"] = guard.Classify(errors.New(r.Text))
		}
		for how, o := range got {
			t.Logf("%-10s %-5s %-26q %-28q %s", r.From, how, o.Kind, o.Rule, r.Text)
			if o.Rule == "" {
				t.Errorf("%s: no rule: %s", how, r.Text)
			}
			if o.Rule = ""; o != want {
				t.Errorf("%s: got %+v, want %+v: %s", how, o, want, r.Text)
			}
		}
	}
	require.NotZero(t, seen, "no rows")
}
