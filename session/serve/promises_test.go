package serve_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// promises lists what strangers cannot do, each with its tests. SECURITY.md has the rows
// that users rely on.
var promises = []struct{ promise, tests string }{
	{"a session of another owner looks nonexistent to every route", "session/serve: TestForeignOwner, TestOwnerByBody, TestForeignPlaces; session: TestScope, TestScopedSession"},
	{"cursors, events and entries of another session lead nowhere", "session/serve: TestForeignPlaces, TestUnknownPlaces"},
	{"the changes of a store name own sessions alone", "session/serve: TestForeignChanges"},
	{"no parent, base or fork is of another owner", "session/serve: TestForeignPlaces, TestOwnerByBody; session: TestScope"},
	{"keys and idempotency keys of owners never meet", "session/serve: TestKeyOfTwoOwners, TestIdempotencyKeyOfTwoOwners; examples/convolog/internal/cli: TestKeyOfTwoOwners"},
	{"a proxy or another user of the machine is no administrator", "session/serve: TestProxy, TestKeys; examples/convolog/internal/cli: TestServe"},
	{"pages of other sites do nothing, with a cookie too", "session/serve: TestCrossSite, TestPageKey"},
	{"no request is read as two", "session/serve: TestSmuggling"},
	{"slow and large headers and bodies are cut", "session/serve: TestSlowAndLargeRequests, TestHugeBody, TestHeaders, TestSlowReader"},
	{"all bodies together are bounded", "session/serve: TestBodiesTogether, TestBodiesOfStrangers"},
	{"odd JSON, numbers and bytes are refused", "session/serve: TestHostileBodies, TestOpenAPIFuzz; transcript: TestDeeplyNestedBlocks"},
	{"no name leads out of the store", "session/serve: TestHostileNames, TestHostileImport, TestURI; transcript/dialect: TestFolderErrors"},
	{"hostile files end", "transcript/dialect: TestPiTrees, TestClaudeCodeTrees, TestScanMemory; session/exchange: FuzzImport; session: TestBadTranscripts"},
	{"a foreign or damaged archive is refused", "internal/filedriver: TestDamagedArchive, TestArchiveRefuses"},
	{"links and FIFOs in the place of files are refused", "session: TestBadTranscripts; session/memory: TestFolderStaysInside; internal/filedriver: TestPlantedLinks, TestHardLinkedTranscript, TestIndexThatIsNoFile; session/blobs: TestBlobFolderLinks; session/serve/zyhive/convlog: TestPlantedLink; examples/internal/token: TestPlantedLink; examples/convolog/internal/cli: TestDefaultFolderIsALink"},
	{"no text becomes a page, an event or a command of a terminal", "session/serve: TestHostileContent; internal/browser: TestHostileTexts, TestUnseenCharacters; examples/convolog/internal/cli: TestScreen"},
	{"neither answers nor the log have paths, keys or texts", "session/serve: TestDiscreet, TestKeys, TestAuthErrors"},
	{"a mistake of a client is no failure of the server", "session/serve: TestMistakes, TestOpenAPIFuzz"},
	{"recall tools read their sessions alone", "session/serve: TestForeignRecall; session/search: TestRecallTools, TestRecallLimits, TestForgedRecall"},
	{"memories are quoted, and planted marks stay inside", "session/memory: TestForgedMemory, TestModelInjection"},
	{"no role of a database runs code as ours", "session/driver/pgdriver: TestSearchPath, TestIsolationOfTheRole, TestRoleWithoutRights"},
	{"texts of the index, queries and patterns are bounded by every door", "session: TestLimitsOfMetadata; session/search: TestRecallLimits; examples/convolog/internal/cli: TestLimitsByEveryDoor"},
	{"a given token is printed nowhere", "examples/convolog/internal/cli: TestServePrintsNoGivenToken; examples/internal/server: TestSaid"},
	{"refusals, removals and hand-overs are recorded", "session/serve: TestAuditLog; session/exchange: TestAudit; session/retain: TestRemovals"},
	{"an erase leaves no word, and names the keys that stay", "session/serve: TestErasePersonEverywhere; session/erase: TestEraseKeysOfForksWithoutLines, TestEraseDuringARestore"},
	{"one owner does not stop others", "session/serve: TestShares, TestSlowAnswersOfOneOwner, TestRequestsOfOneOwner, TestBodiesTogether"},
}

// Every promise has tests, and they exist.
func TestPromises(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	root := os.DirFS(filepath.Join("..", ".."))
	require.NoError(t, fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(root, name)
		for _, found := range pattern.FindAllSubmatch(data, -1) {
			exist[path.Dir(name)+" "+string(found[1])] = true
		}
		return err
	}))
	for _, row := range promises {
		for of := range strings.SplitSeq(row.tests, "; ") {
			pkg, names, _ := strings.Cut(of, ": ")
			for name := range strings.SplitSeq(names, ", ") {
				require.True(t, exist[pkg+" "+name], "%s: there is no %s in %s", row.promise, name, pkg)
			}
		}
	}
}

// Places in a session, in a list and in a stream are useless in the hands of another
// owner: with an own session, and as a parent.
func TestForeignPlaces(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	all := chat(t, ts.URL, map[string]any{"message": "a fruit", "sessionId": "one"}, "X-Api-Key", "alice-key")
	page, err := search.Page(t.Context(), s, "", 4)
	require.NoError(t, err)
	entry := page[1].ID
	bob := newAsker(t, ts, "bob-key")
	bob.ask(200, "POST", "/v1/store/sessions", map[string]string{"id": "two"}, nil)
	const two = "/v1/store/sessions/main/two"
	for path, status := range map[string]int{
		two + "/entries?after=" + entry:                                       404,
		two + "/entries?before=" + entry:                                      404,
		two + "/entries/" + entry:                                             404,
		two + "/follow?after=" + entry:                                        404,
		two + "/follow?lastEventId=" + entry:                                  404,
		"/v1/store/sessions?after=" + infoOf(t, s).Cursor:                     200,
		"/v1/store/sessions?parent=main/one":                                  200,
		"/v1/store/sessions?owner=alice":                                      200,
		"/api/agents/main/chat/stream?sessionId=two&lastEventId=" + all[0].id: 200,
	} {
		got, answer := bob.raw("GET", path, "", nil)
		require.Equal(t, status, got, "%s: %s", path, answer)
		require.NotContains(t, string(answer), "fruit", path)
		require.NotContains(t, string(answer), `"one"`, path)
	}
	for path, body := range map[string]any{
		"/v1/store/sessions": session.CreateOptions{Parent: transcript.Link{Agent: "main", Session: "one"}},
		two + "/fork":        map[string]any{"entry": entry},
		two + "/rewind":      map[string]any{"entry": entry},
		two + "/hide":        map[string]any{"entries": []string{entry}},
	} {
		bob.ask(404, "POST", path, body, nil)
	}
}

// Changes of sessions of others are not named.
func TestForeignChanges(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	changes := call(t, "GET", ts.URL+"/v1/store/changes", nil, "X-Api-Key", "bob-key")
	bob := newAsker(t, ts, "bob-key")
	first := true
	require.NoError(t, frames(changes.Body, func(f frame) bool {
		if first {
			first = false
			talk(t, store, "three")
			_, err := s.Append(t.Context(), transcript.UserText("more"))
			require.NoError(t, err)
			require.NoError(t, store.Delete(t.Context(), s.Ref()))
			bob.ask(200, "POST", "/v1/store/sessions", map[string]string{"id": "two"}, nil)
			return true
		}
		require.Contains(t, []any{"", "two"}, f.data["id"])
		return f.data["id"] == ""
	}))
}

// The tools that a model gets for one session read no entry of another.
func TestForeignRecall(t *testing.T) {
	t.Parallel()
	_, store, _ := withKeys(t)
	s := talk(t, store, "one")
	page, err := search.Page(t.Context(), s, "", 4)
	require.NoError(t, err)
	own, err := store.Create(t.Context(), session.Key{}, &session.CreateOptions{ID: "two", Owner: "bob"})
	require.NoError(t, err)
	for _, tool := range search.RecallTools(own) {
		for _, input := range []map[string]any{
			{"entry": page[1].ID},
			{"id": page[1].ID},
			{"entry": "one/" + page[1].ID},
			{"query": "fruit", "session": "one"},
			{"query": "fruit", "owner": "alice"},
			{"text": "fruit"},
			{"entry": "one", "match": "fruit"},
		} {
			data, err := json.Marshal(input)
			require.NoError(t, err)
			text, err := tool.Call(t.Context(), data)
			require.NotContains(t, fmt.Sprint(text, err), "banana", "%s %s", tool.Name, data)
		}
	}
}

// A request whose length can be read in two ways is refused, and the rest of its
// connection is not read as another request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, nil)
	s := talk(t, store, "one")
	before := state(t, s)
	addr := strings.TrimPrefix(ts.URL, "http://")
	const inner = "DELETE /v1/store/sessions/main/one HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, header := range map[string]string{
		"length and chunks":  "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"two lengths":        "Content-Length: 5\r\nContent-Length: 6\r\n",
		"a list of lengths":  "Content-Length: 5, 6\r\n",
		"a signed length":    "Content-Length: +5\r\n",
		"a tabbed encoding":  "Transfer-Encoding: \x0bchunked\r\n",
		"another encoding":   "Transfer-Encoding: chunked, identity\r\n",
		"a bare CR":          "X: a\rTransfer-Encoding: chunked\r\n",
		"a space in a name":  "Transfer-Encoding : chunked\r\n",
		"a folded header":    " Transfer-Encoding: chunked\r\n",
		"a NUL in the value": "X: \x00\r\n",
	} {
		answer := raw(t, addr, "POST /v1/store/sessions HTTP/1.1\r\nHost: "+addr+"\r\nContent-Type: application/json\r\nConnection: close\r\n"+header+"\r\n0\r\n\r\n"+inner)
		require.NotContains(t, answer, "HTTP/1.1 204", name)
		require.Equal(t, before, state(t, s), name)
	}
}

// The name and the content of an import stay in the store.
func TestHostileImport(t *testing.T) {
	t.Parallel()
	ts, _, _ := withKeys(t)
	const lines = `{"role":"user","content":"hello","ts":1771927201.5}` + "\n"
	for _, name := range []string{"../../../../etc/passwd", "/etc/passwd", `..\..\x.jsonl`, "a\x00b.jsonl", "", "..", "con.jsonl", "agents/_erase/sessions/x.jsonl"} {
		for _, content := range []string{
			lines,
			`{"type":"session","id":"../../../../etc/x","version":3,"timestamp":"2026-03-01T09:00:00Z"}` + "\n" + `{"type":"message","id":"a","parentId":null,"timestamp":"2026-03-01T09:00:00Z","message":{"role":"user","content":"hello"}}` + "\n",
			`{"type":"session","id":"x","ts":"2026-03-01T09:00:00Z","v":1,"key":"_erase:a:b"}` + "\n" + `{"type":"user","id":"u","ts":"2026-03-01T09:00:00Z","content":"hello"}` + "\n",
		} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL+"/v1/store/import", strings.NewReader(content))
			require.NoError(t, err)
			req.Header.Set("X-Api-Key", "admin-key")
			req.Header.Set("Content-Type", "application/jsonl")
			req.Header.Set("Content-Disposition", `attachment; filename="`+strings.NewReplacer(`\`, `\\`, "\x00", "%00").Replace(name)+`"`)
			status, _, body := send(t, req)
			require.Contains(t, []int{200, 400}, status, "%q: %s", name, body)
			var out []struct{ Session session.Ref }
			if status == http.StatusOK {
				require.NoError(t, json.Unmarshal([]byte(body), &out))
			}
			for _, one := range out {
				require.Regexp(t, `^[^/\\]*$`, one.Session.ID, "%q", name)
				require.NotRegexp(t, `^_`, one.Session.Agent)
			}
		}
	}
}
