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

// Clients of a server that was migrated from ZyHive or OpenViking continue under the IDs
// that they know, each owner in the own session.
func TestOldClients(t *testing.T) {
	ts, store, _ := withKeys(t)
	viking, zyhive := fstest.MapFS{}, fstest.MapFS{}
	viking["session/a1b2c3d4/messages.jsonl"] = &fstest.MapFile{
		Data: []byte(`{"id":"msg_1","role":"user","parts":[{"type":"text","text":"which tea?"}],"created_at":"2026-03-01T09:00:00Z"}` + "\n"),
	}
	zyhive["main/sessions/ses-1795188720793.jsonl"] = &fstest.MapFile{Data: []byte(
		`{"type":"session","version":3,"agentId":"main","createdAt":1795188720793}` + "\n" +
			`{"type":"message","message":{"role":"user","content":"hello"},"timestamp":1795188720800}` + "\n" +
			`{"type":"message","message":{"role":"assistant","content":"hi"},"timestamp":1795188720900}` + "\n")}
	for _, owner := range []string{"alice", "bob"} { // the second import finds the IDs in use
		for _, files := range []fstest.MapFS{viking, zyhive} {
			folder, err := dialect.ReadFolder(files)
			require.NoError(t, err)
			report, err := exchange.Import(t.Context(), store, folder.Sessions(), &exchange.ImportOptions{For: owner})
			require.NoError(t, err)
			require.Len(t, report, 1)
		}
	}
	infos, err := store.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, infos, 4)
	for _, owner := range []string{"alice", "bob"} {
		key := owner + "-key"
		all := chat(t, ts.URL, map[string]any{"message": "of " + owner, "sessionId": "ses-1795188720793"}, "X-Api-Key", key)
		require.Equal(t, "of "+owner, text(all))
		post := func(path string, body any) map[string]any {
			resp := call(t, "POST", ts.URL+"/api/v1/"+path, body, "X-Api-Key", key)
			require.Equal(t, 200, resp.StatusCode, "%s of %s", path, owner)
			return decode(t, resp)["result"].(map[string]any)
		}
		require.EqualValues(t, 2, post("sessions/a1b2c3d4/messages", userText("tea of "+owner))["message_count"])
		require.Len(t, post("search/search", map[string]string{"query": "tea", "session_id": "a1b2c3d4"})["resources"], 2)
		done := post("sessions/a1b2c3d4/commit", nil)
		require.Equal(t, true, done["archived"])
		for _, path := range []string{"sessions/a1b2c3d4/archives/archive_001", "tasks/a1b2c3d4@archive_001", "sessions/a1b2c3d4/context"} {
			require.Equal(t, 200, call(t, "GET", ts.URL+"/api/v1/"+path, nil, "X-Api-Key", key).StatusCode, path)
		}
	}
	again, err := store.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, again, 4) // no client made a new one
	for _, i := range again {
		s, err := store.Get(t.Context(), i.Ref)
		require.NoError(t, err)
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			require.NotContains(t, string(e.Line()), "of "+map[string]string{"alice": "bob", "bob": "alice"}[i.Owner])
		}
	}
	require.Equal(t, 200, call(t, "DELETE", ts.URL+"/api/v1/fs?recursive=true&uri=viking://session/a1b2c3d4/", nil, "X-Api-Key", "bob-key").StatusCode)
	require.Equal(t, 404, call(t, "GET", ts.URL+"/api/v1/sessions/a1b2c3d4", nil, "X-Api-Key", "bob-key").StatusCode)
	require.Equal(t, 200, call(t, "GET", ts.URL+"/api/v1/sessions/a1b2c3d4", nil, "X-Api-Key", "alice-key").StatusCode)
}
