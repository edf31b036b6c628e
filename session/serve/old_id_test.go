package serve_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

// The routes find an imported session by the ID that it had in its program, and for its
// owner alone.
func TestOldID(t *testing.T) {
	ts, store, _ := withKeys(t)
	files := fstest.MapFS{}
	for _, id := range []string{"a1b2c3d4", "my chat"} {
		files["session/"+id+"/messages.jsonl"] = &fstest.MapFile{
			Data: []byte(`{"id":"msg_1","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2026-03-01T09:00:00Z"}` + "\n"),
		}
	}
	folder, err := dialect.ReadFolder(files)
	require.NoError(t, err)
	report, err := exchange.Import(t.Context(), store, folder.Sessions(), &exchange.ImportOptions{For: "alice"})
	require.NoError(t, err)
	require.Len(t, report, 2)
	for _, path := range []string{"/v1/store/sessions/main/", "/api/v1/sessions/", "/api/sessions/main/"} {
		for _, id := range []string{"a1b2c3d4", "my%20chat"} {
			status, body := newAsker(t, ts, "alice-key").raw("GET", path+id, "", nil)
			require.Equal(t, 200, status, "%s%s: %s", path, id, body)
			status, body = newAsker(t, ts, "bob-key").raw("GET", path+id, "", nil)
			require.Equal(t, 404, status, "%s%s: %s", path, id, body)
		}
	}
}
