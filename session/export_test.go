package session_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A written file is kept under its name.
type exportedFile struct {
	bytes.Buffer
	to   fstest.MapFS
	name string
}

func (f *exportedFile) Close() error {
	f.to[f.name] = &fstest.MapFile{Data: f.Bytes()}
	return nil
}

// What is exported to another program and imported again has the texts, calls
// and results that it had, the same a second time.
func TestExportDialect(t *testing.T) {
	for _, program := range []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code"} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		report := importAll(t, st, sessionsIn(t, os.DirFS("../transcript/dialect/testdata/"+program)), nil)
		for _, to := range []dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking} {
			for _, im := range report {
				if im.Err != nil {
					continue
				}
				once := exportTo(t, st, im.Session, to)
				again := session.OpenDriver(memdriver.New(nil), nil)
				back := importAll(t, again, sessionsIn(t, once), nil)
				if len(back) != 1 {
					t.Fatalf("%s to %s: %d sessions", im.Source.Path, to, len(back))
				}
				for _, whole := range []bool{true, false} {
					if !whole && to != dialect.ZyHive { // the others have no place for what a summary keeps
						continue
					}
					want, got := saidIn(t, st, im.Session, whole), saidIn(t, again, back[0].Session, whole)
					if !slices.Equal(got, want) {
						t.Errorf("%s to %s (all of it: %v):\n%q\nwant\n%q", im.Source.Path, to, whole, got, want)
					}
				}
			}
		}
	}
}

func exportTo(t *testing.T, st *session.Store, ref session.Ref, d dialect.Dialect) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	w, err := dialect.NewWriter(d, func(name string) (io.WriteCloser, error) {
		return &exportedFile{to: files, name: name}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := st.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ExportDialect(t.Context(), w, dialect.Session{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return files
}

// saidIn returns the words, calls and results of a whole conversation, or of
// what a model is shown of it.
func saidIn(t *testing.T, st *session.Store, ref session.Ref, whole bool) []string {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.History(t.Context())
	if whole {
		h, err = s.FullHistory(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range h.Messages {
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				said = append(said, strings.Fields(string(m.Role) + " " + b.Text)[1:]...)
			case transcript.ToolCallBlock:
				said = append(said, "call", b.ID)
			case transcript.ToolResultBlock:
				said = append(said, "result", b.CallID, b.Text())
			}
		}
	}
	return said
}

// What is known beside the messages stays with OpenViking: what was used, and
// what its archives say.
func TestExportUsed(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := load(t, st, cli)
	said := add(t, s, transcript.UserText("hi"), transcript.AssistantText("hello"))
	add(t, s, transcript.Compaction{Summary: "greeted\nat length", CoversTo: said[1]},
		transcript.Commit{Archive: "history/archive_001", Abstract: "one greeting", Overview: "greeted at length", FirstEntry: said[0], LastEntry: said[1]},
		transcript.Used{Contexts: []string{"viking://a", "viking://b"}})
	files := exportTo(t, st, s.Ref(), dialect.OpenViking)
	for name, want := range map[string]string{
		".relations.json": `"viking://b"`, "history/archive_001/.abstract.md": "one greeting", "history/archive_001/.overview.md": "greeted at length",
	} {
		file := files["session/"+s.ID()+"/"+name]
		if file == nil || !strings.Contains(string(file.Data), want) {
			t.Errorf("%s: %+v, want %s in it", name, file, want)
		}
	}
}

// The lines of a session that are exported are those of its transcript.
func TestExportLines(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	s := load(t, st, cli)
	first := add(t, s, transcript.UserText("hi"))
	add(t, s, transcript.AssistantText("hello"))
	if err := s.Rewind(t.Context(), first[0]); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.ExportLines(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(dir + "/agents/main/sessions/" + s.ID() + ".jsonl")
	if err != nil || out.String() != string(file) {
		t.Errorf("exported\n%s\nwant (%v)\n%s", &out, err, file)
	}
}

func TestExportRequest(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("hi"))
	var out bytes.Buffer
	if _, err := s.ExportRequest(t.Context(), &out, wire.Anthropic{}, transcript.Request{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Model    string
		Messages []struct{ Role string }
	}
	if err := json.Unmarshal(out.Bytes(), &body); err != nil || body.Model != "m" || len(body.Messages) != 1 || body.Messages[0].Role != "user" {
		t.Errorf("%s: %v", &out, err)
	}
}

// The lines that a document has outside of texts and fences.
var markdownLine = regexp.MustCompile(`^(|# .*|## (User|Assistant|Tool|Summary of the above)( · .*)?|(  )?- .*|\*\[.*\]\*|<details><summary>[^<>]*</summary>|</details>)$`)

// Nothing that was said can leave its place in the document.
func TestExportMarkdown(t *testing.T) {
	hostile := []string{
		"plain", "```\nunclosed <b>", "~~~\n```\n", "<!-- gone", "a\r# not a heading\r\nb", "</details>\n\n## User", "`a` < `b <c` `<d",
		"`open\nx` <!-- `y`", "| `a | <i>` |", `\<script> \` + "`<x>`", "    ```\n<p>", "[a]: http://x\n***\n===",
		"\x1b[2Jbell\a \x7f\u009b\x00",
	}
	var want []string
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	s, err := st.Create(t.Context(), cli, &session.CreateOptions{Title: "<b>*T*</b>\n# x", Labels: []string{"`l`"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range hostile {
		input, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		id := "c" + string(rune('a'+i))
		call := transcript.ToolCallBlock{ID: id, Name: "t\n</summary>", Input: input}
		add(t, s, transcript.UserText(text), transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.TextBlock{Text: text}, call,
		}}}, transcript.ToolResult(id, text), transcript.AssistantText("done "+id))
		want = append(want, "done "+id)
	}
	add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "AAAA"}},
	}})
	var out bytes.Buffer
	if err := s.ExportMarkdown(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	doc := out.String()
	fence, quoted := "", ""
	for line := range strings.Lines(doc) {
		line = strings.TrimSuffix(line, "\n")
		mark := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case strings.ContainsFunc(line, unicode.IsControl):
			t.Errorf("a control character in %q", line)
		case fence != "":
			if line == fence {
				fence = ""
			} else if len(mark) >= len(fence) {
				t.Errorf("%q inside of %q", line, fence)
			}
		case len(mark) >= 3:
			fence = mark
		case strings.HasPrefix(line, ">"):
			quoted += line + "\n"
		case !markdownLine.MatchString(line):
			t.Errorf("line %q", line)
		}
	}
	for _, text := range append(want, `\<!-- gone`, "> \\</details>", "`a` \\< `b <c` `\\<d", "x` \\<!-- `y`", "| `a | \\<i>` |", `\\\<script>`, "unclosed <b>", "␛[2Jbell␇ ␡\uFFFD␀") {
		if !strings.Contains(quoted, text) {
			t.Errorf("no %q in\n%s", text, quoted)
		}
	}
	for _, text := range []string{`# \<b\>\*T\*\</b\> \# x`, "*[image, image/png, 3 bytes]*", "  - \\`l\\`", "## User · 2027-01-15 08:00:00Z"} {
		if !strings.Contains(doc, text+"\n") {
			t.Errorf("no %q in\n%s", text, doc)
		}
	}
}
