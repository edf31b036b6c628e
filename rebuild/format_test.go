package rebuild_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// The session that docs/FORMAT.md shows is one: read without damage, folded without
// repairs, and a provider would take it.
func TestFormatExample(t *testing.T) {
	text, err := os.ReadFile("../docs/FORMAT.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(text), "\n    {\"type\":\"session\"")
	require.True(t, ok, "there is no example")
	example, _, _ = strings.Cut(`{"type":"session"`+example, "\n\n")
	example = strings.ReplaceAll(example, "\n    ", "\n") + "\n"
	f, batcher := rebuild.New(nil), transcript.Batcher{}
	for rec, err := range transcript.Scan(strings.NewReader(example), int64(len(example)), nil) {
		require.NoError(t, err)
		require.Nil(t, rec.Damage)
		for _, b := range batcher.Add(rec.Entry) {
			require.NoError(t, f.Add(b))
		}
	}
	h := f.History()
	if len(h.Messages) != 4 || f.Turns() != 1 || len(f.Report()) > 0 {
		t.Errorf("%d messages, %d turns, report %v", len(h.Messages), f.Turns(), f.Report())
	}
	if v := wiretest.Validate(transcript.Request{
		Model: "m", MaxOutput: 100, Messages: append(h.Messages, transcript.UserText("go on")),
	}); len(v) > 0 {
		t.Error(v)
	}
}
