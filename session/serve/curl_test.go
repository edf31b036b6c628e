package serve_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/transcript"
)

// curlLines are commands as the documents of OpenViking have them, each with the
// answer that is printed there, if one is.
//
//go:embed testdata/openviking-curl.txt
var curlLines string

// The commands of the documents work unchanged, and give the printed output.
func TestCurlLines(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not there")
		}
	}
	for i, block := range strings.Split(curlLines, "\n---\n") {
		commands, printed, _ := strings.Cut(block, "\n{\n")
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			ts, store, _ := served(t, &serve.Options{Auth: serve.Keys(map[string]serve.Principal{"your-key": {Owner: "alice", Admin: true}})})
			prepare(t, store, commands)
			answers := runCurl(t, strings.TrimPrefix(ts.URL, "http://"), commands)
			require.Equal(t, strings.Count(commands, "curl "), len(answers))
			for _, a := range answers {
				require.Equal(t, "ok", a["status"], "%s\n%s", commands, a)
				require.Positive(t, a["time"])
			}
			if printed == "" {
				return
			}
			var want map[string]any
			require.NoError(t, json.Unmarshal([]byte("{\n"+printed), &want))
			got := answers[len(answers)-1]
			if strings.HasPrefix(commands, "curl -X POST http://localhost:1933/api/v1/sessions \\") { // a new ID
				require.NotEmpty(t, got["result"].(map[string]any)["session_id"])
				got["result"].(map[string]any)["session_id"] = "a1b2c3d4"
			}
			got["time"] = want["time"]
			includes(t, want, got)
		})
	}
}

// prepare makes what the commands are about.
func prepare(t *testing.T, store *session.Store, commands string) {
	t.Helper()
	messages := 0
	switch {
	case strings.Contains(commands, "GET http://localhost:1933/api/v1/sessions/"):
		messages = 5
	case strings.Contains(commands, "/commit") && !strings.Contains(commands, "/messages"):
		messages = 2
	}
	for _, s := range [][2]string{{"e5f6g7h8", "bob"}, {"a1b2c3d4", "alice"}} {
		key := session.Key{Agent: "main", Channel: "test", Peer: s[0]}
		s, err := store.Create(t.Context(), key, &session.CreateOptions{ID: s[0], Owner: s[1]})
		require.NoError(t, err)
		for i := range messages {
			m := transcript.Message{Role: []transcript.Role{transcript.RoleUser, transcript.RoleAssistant}[i%2], Content: []transcript.Block{transcript.TextBlock{Text: "a text"}}}
			_, err = s.Append(t.Context(), m)
			require.NoError(t, err)
		}
	}
}

// includes checks that all that is printed is there.
func includes(t *testing.T, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		for name, value := range want {
			require.Contains(t, got, name)
			includes(t, value, got.(map[string]any)[name])
		}
	case []any:
		require.Len(t, got, len(want))
		for i, value := range want {
			includes(t, value, got.([]any)[i])
		}
	default:
		require.Equal(t, want, got)
	}
}

// runCurl runs commands against another address than the one they have.
func runCurl(t *testing.T, addr, commands string) (answers []map[string]any) {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".curlrc"), []byte("silent\nconnect-to = \"localhost:1933:"+addr+"\"\nnoproxy = \"*\"\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands) //nolint:gosec // those of the documents
	cmd.Env = append(os.Environ(), "CURL_HOME="+home)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var a map[string]any
		if err := d.Decode(&a); err == io.EOF {
			return answers
		} else {
			require.NoError(t, err, "%s", out)
		}
		answers = append(answers, a)
	}
}

// The same script makes the same transcript through Go and over HTTP, but for IDs and
// times.
func TestSameTranscript(t *testing.T) {
	t.Parallel()
	said := []string{"How do I configure embedding?", "Based on the documentation, you can configure embedding..."}
	ts, store, _ := served(t, &serve.Options{Auth: serve.Keys(map[string]serve.Principal{"k": {Owner: "alice"}})})
	post := func(path string, body any) map[string]any {
		resp := call(t, "POST", ts.URL+"/api/v1/"+path, body, "X-Api-Key", "k")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return decode(t, resp)["result"].(map[string]any)
	}
	id := post("sessions", nil)["session_id"].(string)
	post("sessions/"+id+"/messages", map[string]string{"role": "user", "content": said[0]})
	hits := post("search/search", map[string]string{"query": "embedding configuration", "session_id": id})
	post("sessions/"+id+"/messages", map[string]any{"role": "assistant", "parts": []any{
		map[string]string{"type": "text", "text": said[1]},
		map[string]string{"type": "context", "uri": "viking://resources/a/", "context_type": "resource", "abstract": "A"},
	}})
	post("sessions/"+id+"/used", map[string]any{"contexts": []string{"viking://resources/a/"}})
	post("sessions/"+id+"/commit", nil)
	overHTTP, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: id})
	require.NoError(t, err)

	_, other, _ := served(t, nil)
	ctx := t.Context()
	s, err := other.Create(ctx, session.Key{Agent: "main", Channel: "http", Peer: "twin"}, &session.CreateOptions{ID: "twin", Owner: "alice"})
	require.NoError(t, err)
	_, err = s.Append(ctx, transcript.UserText(said[0]))
	require.NoError(t, err)
	found := 0
	for _, err := range search.Session(ctx, s, search.Query{Text: "embedding configuration", Ranked: true}) {
		require.NoError(t, err)
		found++
	}
	_, err = s.Append(ctx, transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.TextBlock{Text: said[1]}, transcript.ContextBlock{URI: "viking://resources/a/", Kind: "resource", Abstract: "A"},
	}})
	require.NoError(t, err)
	require.NoError(t, memory.RecordUse(ctx, s, memory.Use{URI: "viking://resources/a/"}))
	_, err = memory.Commit(ctx, s, nil)
	require.NoError(t, err)

	require.EqualValues(t, found, hits["total"])
	require.Equal(t, plain(t, s), plain(t, overHTTP))
	want, err := memory.ReadStats(ctx, s)
	require.NoError(t, err)
	got, err := memory.ReadStats(ctx, overHTTP)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A chapter is an archive with its number, in routes and in URIs.
func TestArchives(t *testing.T) {
	t.Parallel()
	memories, err := memory.Open(memory.Folder(t.TempDir()), nil)
	require.NoError(t, err)
	for agent, query := range map[string]string{"main": "", "a b": "?agent=a+b"} {
		ts, store, _ := served(t, &serve.Options{
			Auth: anyone, Memory: memories, Surfaces: []serve.Surface{openviking.New(agent, nil)},
		})
		s, err := store.Create(t.Context(), session.Key{Agent: agent, Channel: "cli", Peer: "a"}, &session.CreateOptions{ID: "one"})
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.UserText("which walrus?"), transcript.AssistantText("none"))
		require.NoError(t, err)
		done, err := memory.Commit(t.Context(), s, nil)
		require.NoError(t, err)
		require.Equal(t, "chapter_001", done.Chapter)
		got := decode(t, call(t, "GET", ts.URL+"/api/v1/sessions/one/archives/archive_001", nil))["result"].(map[string]any)
		require.Equal(t, "archive_001", got["archive_id"])
		require.Len(t, got["messages"], 2)
		for _, name := range []string{"chapter_001", "archive_002", "archive_1"} {
			require.Equal(t, 404, call(t, "GET", ts.URL+"/api/v1/sessions/one/archives/"+name, nil).StatusCode)
		}
		got = decode(t, call(t, "POST", ts.URL+"/api/v1/search/search", map[string]string{"query": "walrus", "session_id": "one"}))["result"].(map[string]any)
		abstracts := map[any]any{} // by URI
		for _, hit := range got["resources"].([]any) {
			require.Equal(t, "resource", hit.(map[string]any)["context_type"])
			abstracts[hit.(map[string]any)["uri"]] = hit.(map[string]any)["abstract"]
		}
		require.Equal(t, "which walrus?", abstracts["viking://session/one/history/archive_001/"+query])
	}
}

// plain is a transcript with numbers for IDs, and without times and checksums.
func plain(t *testing.T, s *session.Session) (text string) {
	t.Helper()
	ids := map[string]string{s.Ref().ID: "id0"}
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		var line map[string]any
		require.NoError(t, json.Unmarshal(e.Line(), &line))
		delete(line, "crc")
		data, err := json.Marshal(line)
		require.NoError(t, err)
		text += string(data) + "\n"
		if ids[e.ID] == "" {
			ids[e.ID] = fmt.Sprintf("id%d", len(ids))
		}
	}
	for id, name := range ids {
		text = strings.ReplaceAll(text, id, name)
	}
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(text, "T")
}
