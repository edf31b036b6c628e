package exchange_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// Usage counts a request once in a store: in a file and its copies, in one
// import or in several, whichever comes first, and after the copy has grown.
func TestImportUsageOnce(t *testing.T) {
	file := func(id string, answers ...int) *fstest.MapFile {
		var sb strings.Builder
		for _, n := range answers {
			fmt.Fprintf(&sb, `{"uuid":"u%d","parentUuid":"a%d","sessionId":%q,"type":"user","message":{"role":"user","content":"q%d"},"timestamp":"2026-03-01T09:%02d:00Z"}`+"\n", n, n-1, id, n, n)
			fmt.Fprintf(&sb, `{"uuid":"a%d","parentUuid":"u%d","sessionId":%q,"type":"assistant","requestId":"r%d","message":{"id":"m%d","role":"assistant","model":"m","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":100,"output_tokens":1}},"timestamp":"2026-03-01T09:%02d:30Z"}`+"\n", n, n, id, n, n, n)
		}
		return &fstest.MapFile{Data: []byte(sb.String())}
	}
	used := func(st *session.Store) (input int) {
		infos, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		for _, info := range infos {
			input += info.Usage["m"].Input
		}
		return input
	}
	one, copied := fstest.MapFS{"p/one.jsonl": file("one", 1, 2)}, fstest.MapFS{"p/two.jsonl": file("two", 1, 2, 3)}
	both := fstest.MapFS{"p/one.jsonl": one["p/one.jsonl"], "p/two.jsonl": copied["p/two.jsonl"]}
	for name, sources := range map[string][]fstest.MapFS{
		"at once": {both}, "the copy later": {one, copied}, "the copy first": {copied, one}, "again": {one, both, copied, one},
	} {
		st := inMemory()
		for _, files := range sources {
			for _, im := range importAll(t, st, sessionsIn(t, files), nil) {
				history, _ := importedHistory(t, st, im.Session)
				require.Equal(t, sourceHistory(t, im.Source, nil), history, name)
			}
		}
		require.Equal(t, 300, used(st), name)
		grown := fstest.MapFS{"p/two.jsonl": file("two", 1, 2, 3, 4)}
		im := importAll(t, st, sessionsIn(t, grown), nil)[0]
		require.Equal(t, 2, im.Appended, name)
		require.Equal(t, 400, used(st), name)
	}
}
