package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// documents are the dialects whose files are one JSON document.
var documents = []dialect.Dialect{dialect.ChatGPT, dialect.ClaudeAI, dialect.OpenCode, dialect.GeminiCLI}

// checkDocument fails unless every entry comes with an ID and a line, entries of one
// message are a whole batch, and no message is read twice.
func checkDocument(t testing.TB, recs []transcript.Record, size int64) {
	t.Helper()
	type place struct {
		offset int64
		part   int
		title  bool
	}
	seen := map[place]bool{}
	for i, r := range recs {
		if r.Offset < 0 || r.End > size || r.End < r.Offset {
			t.Fatalf("record %d is at %d-%d of %d", i, r.Offset, r.End, size)
		}
		if r.Damage != nil {
			if r.Damage.Size <= 0 || r.Damage.Offset+r.Damage.Size > size {
				t.Fatalf("%+v of %d bytes", r.Damage, size)
			}
			continue
		}
		if r.Entry.ID == "" || !json.Valid(r.Entry.Line()) || bytes.ContainsAny(r.Entry.Line(), "\r\n") {
			t.Fatalf("record %d is %+v with line %q", i, r.Entry, r.Entry.Line())
		}
		_, title := r.Entry.Body.(transcript.Meta)
		at := place{r.Offset, r.Entry.Part, title}
		if seen[at] && r.End > r.Offset {
			t.Fatalf("record %d at %d is read twice", i, r.Offset)
		}
		seen[at] = true
		for k := 1; k < r.Entry.Batch; k++ {
			if i+k >= len(recs) || recs[i+k].Entry.Part != k+1 || recs[i+k].Offset != r.Offset {
				t.Fatalf("record %d starts a batch of %d, record %d of it is not there", i, r.Entry.Batch, k+1)
			}
		}
	}
}

// A document that ends anywhere yields the messages before its end, and the rest is
// damage.
func TestTornDocuments(t *testing.T) {
	places := 400
	if testing.Short() {
		places = 40
	}
	for name, data := range fixtures(t) {
		d, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		if !slices.Contains(documents, d) || strings.HasSuffix(name, ".jsonl") {
			continue
		}
		whole := messageLines(scan(t, d, string(data)))
		most := 0
		for n := 0; n < len(data); n += 1 + len(data)/places {
			recs := scan(t, d, string(data[:n]))
			checkDocument(t, recs, int64(n))
			got := messageLines(recs)
			for line := range got {
				if !whole[line] {
					t.Fatalf("%s cut at %d has %s", name, n, line)
				}
			}
			if len(got) < most {
				t.Fatalf("%s cut at %d has %d messages, and %d before", name, n, len(got), most)
			}
			most = len(got)
			if !slices.ContainsFunc(recs, func(r transcript.Record) bool { return r.Damage != nil }) && n > 1 {
				closed := append(bytes.TrimRight(bytes.Clone(data[:n]), ", \n"), ']')
				if !json.Valid(data[:n]) && !json.Valid(closed) {
					t.Fatalf("%s cut at %d has no damage: %q", name, n, data[max(0, n-40):n])
				}
			}
		}
		require.GreaterOrEqual(t, most, len(whole)-1, name)
	}
}

// messageLines returns the lines of messages.
func messageLines(recs []transcript.Record) map[string]bool {
	lines := map[string]bool{}
	for _, r := range recs {
		if _, head := r.Entry.Body.(transcript.Header); r.HasEntry() && !head {
			if _, title := r.Entry.Body.(transcript.Meta); !title {
				lines[string(r.Entry.Line())] = true
			}
		}
	}
	return lines
}

// Every message of a document is an entry, in the words of the document, though for a
// list of children.
func TestDocumentsAreWhole(t *testing.T) {
	messages := map[dialect.Dialect]string{dialect.ChatGPT: "mapping", dialect.ClaudeAI: "chat_messages", dialect.OpenCode: "messages", dialect.GeminiCLI: "messages"}
	for name, data := range fixtures(t) {
		d, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		if messages[d] == "" || strings.HasSuffix(name, ".jsonl") {
			continue
		}
		var all []any
		require.NoError(t, json.Unmarshal(fmt.Appendf(nil, "[%s]", data), &all))
		if list, ok := all[0].([]any); ok {
			all = list
		}
		want := map[string]int{}
		for _, c := range all {
			c, _ := c.(map[string]any)
			switch list := c[messages[d]].(type) {
			case []any:
				for _, m := range list {
					want[canonical(t, m)]++
				}
			case map[string]any:
				for _, m := range list {
					delete(m.(map[string]any), "children")
					want[canonical(t, m)]++
				}
			}
		}
		got := map[string]int{}
		for _, r := range scan(t, d, string(data)) {
			if _, head := r.Entry.Body.(transcript.Header); r.HasEntry() && !head && r.Entry.Part == 0 && r.End > r.Offset {
				var m any
				require.NoError(t, json.Unmarshal(r.Entry.Line(), &m))
				got[canonical(t, m)]++
			}
		}
		require.Equal(t, want, got, name)
	}
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// One unreadable message is damage; those around it are read.
func TestDamagedDocuments(t *testing.T) {
	const doc = `[{"uuid":"c1","chat_messages":[{"uuid":"a","sender":"human","text":"one"}, MESSAGE, {"uuid":"b","sender":"human","text":"two","parent_message_uuid":"a"}]},{"uuid":"c2","chat_messages":[{"uuid":"c","sender":"human","text":"three"}]}]`
	for message, want := range map[string]string{
		`{"uuid":"x","sender":"human" "text":1}`: "not-json",
		`{"uuid":"x","text":"` + "\x01" + `"}`:   "not-json",
		`{"uuid":"x","text":"` + "\xff" + `"}`:   "utf8",
		`7`:                                      "not-object",
		`[{"uuid":"x"}]`:                         "not-object",
		`tru`:                                    "not-json",
	} {
		var said []string
		var damage []string
		for _, r := range scan(t, dialect.ClaudeAI, strings.Replace(doc, "MESSAGE", message, 1)) {
			if r.Damage != nil {
				damage = append(damage, string(r.Damage.Kind))
			}
			if f, ok := r.Entry.Body.(transcript.MessageLine); ok {
				said = append(said, f.Message().Text())
			}
		}
		require.Equal(t, []string{"one", "two", "three"}, said, message)
		require.Equal(t, []string{want}, damage, message)
	}
}

// A long paste is an attachment, and may be all that the user said.
func TestPaste(t *testing.T) {
	const doc = `{"uuid":"c","chat_messages":[{"uuid":"a","sender":"human","text":"","content":[],"attachments":[{"file_name":"","extracted_content":"a long paste"}],"files":[{"file_name":"a.pdf"}],"files_v2":[{"file_name":"a.pdf"}]}]}`
	recs := scan(t, dialect.ClaudeAI, doc)
	require.Equal(t, `user {"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a long paste"}},{"type":"text","text":"[file: a.pdf]"}]}`, show(recs[1]))
}

// Messages longer than the limit are damage.
func TestLongDocumentMessage(t *testing.T) {
	doc := `{"uuid":"c","chat_messages":[{"uuid":"a","sender":"human","text":"` + strings.Repeat("x", 200) + `"},{"uuid":"b","sender":"human","text":"short"}]}`
	var got []string
	for r, err := range dialect.ClaudeAI.Scan(strings.NewReader(doc), int64(len(doc)), &transcript.ScanOptions{Final: true, MaxLine: 100}) {
		require.NoError(t, err)
		got = append(got, kinds([]transcript.Record{r}))
	}
	require.Equal(t, []string{"session", "user", "!too-long"}, got)
}

// A tree may contain circles, and a leaf or a parent that does not exist.
func TestBrokenThreads(t *testing.T) {
	node := func(id, parent string) string {
		return fmt.Sprintf(`%q:{"id":%[1]q,"parent":%[2]q,"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["%[1]s"]}}}`, id, parent)
	}
	for _, tt := range []struct {
		nodes []string
		leaf  string
		want  string
	}{
		{[]string{node("a", ""), node("b", "a")}, "b", "a b"},
		{[]string{node("b", "a"), node("a", "")}, "b", "a b"},
		{[]string{node("a", ""), node("b", "a"), node("c", "a")}, "b", "a (c) b"},
		{[]string{node("a", ""), node("b", "a"), node("c", "a")}, "gone", "a (b) c"},
		{[]string{node("a", "b"), node("b", "a")}, "b", "a b"},
		{[]string{node("a", "a")}, "a", "a"},
		{[]string{node("a", "gone"), node("b", "gone")}, "b", "(a) b"},
		{[]string{node("a", ""), node("x", "y"), node("y", "x"), node("b", "a")}, "b", "a b (x) (y)"},
	} {
		doc := `{"title":"t","mapping":{` + strings.Join(tt.nodes, ",") + `},"current_node":"` + tt.leaf + `"}`
		var got []string
		for _, r := range scan(t, dialect.ChatGPT, doc) {
			switch r.Entry.Body.(type) {
			case transcript.MessageLine:
				got = append(got, r.Entry.ID)
			case transcript.Custom:
				got = append(got, "("+r.Entry.ID+")")
			}
		}
		require.Equal(t, tt.want, strings.Join(got, " "), doc)
	}
}

// An image of a ChatGPT export is in the history if its file is in the folder.
func TestExportedImages(t *testing.T) {
	const doc = `[{"title":"t","mapping":{"a":{"id":"a","message":{"author":{"role":"user"},"content":{"content_type":"multimodal_text","parts":[` +
		`{"content_type":"image_asset_pointer","asset_pointer":"file-service://file-One"},` +
		`{"content_type":"image_asset_pointer","asset_pointer":"sediment://file_two#p_1"},` +
		`{"content_type":"image_asset_pointer","asset_pointer":"file-service://file-Text"},` +
		`{"content_type":"image_asset_pointer","asset_pointer":"file-service://file-Gone"}]}}}},"current_node":"a"}]`
	files := fstest.MapFS{
		"export/conversations.json":              {Data: []byte(doc)},
		"export/file-One-hive.png":               {Data: []byte("\x89PNG\r\n")},
		"export/user-1/file_two-a-b.jpg":         {Data: []byte("\xff\xd8\xff\xe0")},
		"export/file-Text-notes.txt":             {Data: []byte("notes")},
		"elsewhere/file-Gone-not-of-this-export": {Data: []byte("\x89PNG")},
	}
	folder, err := dialect.ReadFolder(files)
	require.NoError(t, err)
	n := 0
	for s := range folder.Sessions() {
		for r, err := range s.Records() {
			require.NoError(t, err)
			if f, ok := r.Entry.Body.(transcript.MessageLine); ok {
				n++
				text, err := f.Message().MarshalJSON()
				require.NoError(t, err)
				require.JSONEq(t, `{"role":"user","content":[
					{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}},
					{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/4A=="}},
					{"type":"text","text":"[image: file-service://file-Text]"},
					{"type":"text","text":"[image: file-service://file-Gone]"}]}`, string(text))
			}
		}
	}
	require.Equal(t, 1, n)
}

// A compressed rollout is named, and read once a file system has it decompressed.
func TestCompressedRollout(t *testing.T) {
	const name = "sessions/rollout-2026-09-01T10-00-00-x.jsonl"
	fsys := fstest.MapFS{name + ".zst": {Data: []byte("\x28\xb5\x2f\xfd")}}
	f, err := dialect.ReadFolder(fsys)
	require.NoError(t, err)
	n := 0
	for s := range f.Sessions() {
		n++
		e, ok := errors.AsType[*dialect.CompressedError](s.Err)
		require.True(t, ok)
		require.Equal(t, name+".zst", e.Path)
		require.Contains(t, s.Err.Error(), "zstd -d")
	}
	require.Equal(t, 1, n)
	fsys[name] = &fstest.MapFile{Data: []byte(`{"timestamp":"2026-09-01T10:00:00Z","type":"session_meta","payload":{"id":"x"}}` + "\n")}
	f, err = dialect.ReadFolder(fsys)
	require.NoError(t, err)
	for s := range f.Sessions() {
		require.NoError(t, s.Err)
		require.Equal(t, name, s.Path)
	}
	require.Equal(t, []string{name + ".zst"}, f.Others)
}

func FuzzDocument(f *testing.F) {
	for name, data := range fixtures(f) {
		if program, _, _ := strings.Cut(strings.TrimPrefix(name, "testdata/"), "/"); strings.Contains(name, ".json") {
			if i := slices.Index(documents, dialect.Dialect(program)); i >= 0 {
				f.Add(data, byte(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		d := documents[int(which)%len(documents)]
		recs := scan(t, d, string(data))
		checkDocument(t, recs, int64(len(data)))
		if again := scan(t, d, string(data)); !reflect.DeepEqual(recs, again) {
			t.Fatalf("%s: read twice, not the same: %q", d, data)
		}
		// The sessions of a folder are the parts of the document.
		folder, err := dialect.ReadFolder(fstest.MapFS{"a.json": {Data: data, Mode: fs.ModePerm}})
		require.NoError(t, err)
		for s := range folder.Sessions() {
			require.NoError(t, s.Err)
			recs := recs[:0:0]
			for r, err := range s.Records() {
				require.NoError(t, err)
				recs = append(recs, r)
			}
			checkDocument(t, recs, int64(len(data)))
		}
	})
}
