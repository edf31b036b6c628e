package exchange_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// Media become blobs when they are imported, are in no line, and go out again with
// every export.
func TestBlobsImportAndExport(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("noise?>"), 5_000)...)) // has a "/"
	source := fmt.Sprintf(`{"type":"session","version":3,"id":"s1","timestamp":"2026-03-01T09:00:00Z","cwd":"/x"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-03-01T09:00:01Z","message":{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","data":%q,"mimeType":"image/png"}]}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-03-01T09:00:02Z","message":{"role":"assistant","content":[{"type":"text","text":"I see."}]}}
`, data)
	kept := blobs.Memory()
	st := session.OpenDriver(memdriver.New(nil), with(kept))
	plain := inMemory()
	var want string
	var ref session.Ref
	for _, one := range []*session.Store{plain, st, st} { // twice: the second time appends nothing
		im := importAll(t, one, sessionsIn(t, fstest.MapFS{"s1.jsonl": {Data: []byte(source)}}), nil)[0]
		history, _ := importedHistory(t, one, im.Session)
		if ref = im.Session; want == "" {
			want = history
		}
		require.Equal(t, want, history)
	}
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	hashes, err := kept.List(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, hashes, 1)
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		require.NotContains(t, string(e.Line()), data[:100])
		if from, ok := e.Source(); ok && bytes.Contains(from, []byte("mimeType")) {
			require.Contains(t, string(from), "sha256:"+hashes[0])
		}
	}

	var lines, request, document bytes.Buffer
	require.NoError(t, exchange.Lines(t.Context(), s, &lines))
	require.Contains(t, lines.String(), data)
	_, err = exchange.Request(t.Context(), s, &request, anthropic.Format{}, transcript.Request{Model: "m", MaxOutput: 10})
	require.NoError(t, err)
	require.Contains(t, request.String(), data)
	require.NoError(t, exchange.Markdown(t.Context(), s, &document))
	require.Contains(t, document.String(), "image, image/png, 35008 bytes")
	var out strings.Builder
	for _, file := range exportTo(t, st, ref, dialect.ZyHive) {
		out.WriteString(string(file.Data))
	}
	require.Contains(t, strings.ReplaceAll(out.String(), `\/`, "/"), data)

	// The exported lines are a session of their own anywhere.
	other := session.OpenDriver(memdriver.New(nil), with(blobs.Memory()))
	im := importAll(t, other, sessionsIn(t, fstest.MapFS{"s1.jsonl": {Data: lines.Bytes()}}), nil)[0]
	history, _ := importedHistory(t, other, im.Session)
	require.Equal(t, want, history)
}
