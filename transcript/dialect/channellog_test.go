package dialect_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

// A channel log is recognised, and no part of it becomes a session.
func TestChannelLog(t *testing.T) {
	const log = `{"ts":"2026-02-24T10:00:00Z","role":"user","content":"the word","channelId":"web-shop","channelType":"web"}` + "\n"
	d, sure, err := dialect.Detect(strings.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, dialect.ZyHiveLog, d)
	require.True(t, sure)
	for rec, err := range d.Scan(strings.NewReader(log), int64(len(log)), nil) {
		require.ErrorIs(t, err, dialect.ErrChannelLog)
		require.ErrorContains(t, err, "session/serve/zyhive/convlog")
		if rec.Entry.Body != nil {
			t.Errorf("it was read: %+v", rec)
		}
	}
	folder, err := dialect.ReadFolder(fstest.MapFS{
		"a/convlogs/web-shop.jsonl":            {Data: []byte(log)},
		"a/workspace/conversations/s.jsonl":    {Data: []byte(log)},
		"a/workspace/conversations/index.json": {Data: []byte(`{"entries":[{"channelId":"web-shop","sessionId":"s","filePath":"s.jsonl"},{"channelId":"gone","sessionId":"g","filePath":"g.jsonl"}]}`)},
	})
	require.NoError(t, err)
	for s := range folder.Sessions() {
		t.Errorf("a session: %+v", s)
	}
	require.Equal(t, []string{"a/convlogs/web-shop.jsonl", "a/workspace/conversations/s.jsonl"}, folder.Others)
	require.Len(t, folder.Indexes, 1)
}
