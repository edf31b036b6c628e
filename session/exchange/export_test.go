package exchange_test

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

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
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

// A session that is exported to another program and imported again keeps its
// texts, calls and results.
func TestExportDialect(t *testing.T) {
	for _, program := range []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code"} {
		st := inMemory()
		report := importAll(t, st, sessionsIn(t, os.DirFS(samples+program)), nil)
		for _, to := range []dialect.Dialect{
			dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex,
		} {
			for _, im := range report {
				if im.Err != nil {
					continue
				}
				once := exportTo(t, st, im.Session, to)
				again := inMemory()
				back := importAll(t, again, sessionsIn(t, once), nil)
				require.Len(t, back, 1, "%s to %s", im.Source.Path, to)
				for _, whole := range []bool{true, false} {
					if !whole && slices.Contains([]dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.OpenViking}, to) { // no kept part of a summary
						continue
					}
					want, got := saidIn(t, st, im.Session, whole), saidIn(t, again, back[0].Session, whole)
					if to == dialect.ClaudeCode { // IDs fit the API there, and a summary that replaces nothing is a text
						for i, word := range want {
							want[i] = strings.Replace(word, "../../s1/tools/call_1", "toolu_2e1f9871ef31863d91a103501ca2ae56", 1)
						}
						if i := slices.Index(got, "S1"); strings.HasSuffix(im.Source.Path, "ses-rewritten.jsonl") {
							got, want = got[i+1:], want[slices.Index(want, "S1")+1:]
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s to %s (all of it: %v):\n%q\nwant\n%q", im.Source.Path, to, whole, got, want)
					}
				}
			}
		}
	}
}

// An export keeps the model of an answer, its usage and the ID of its request, in the
// programs that have a place for them.
func TestExportDetails(t *testing.T) {
	st := inMemory()
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "ana"})
	require.NoError(t, err)
	said := transcript.Response{
		API: "anthropic", Model: "m1", StopReason: transcript.StopEndTurn, Usage: transcript.Usage{Input: 5, Output: 6}, RequestID: "req_1",
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "Two."}}},
	}
	_, err = s.Append(t.Context(), transcript.UserText("How many?"), said)
	require.NoError(t, err)
	for to, parts := range map[dialect.Dialect][]string{
		dialect.Pi:         {`"model":"m1"`, `"input":5,"output":6`, `"responseId":"req_1"`},
		dialect.ClaudeCode: {`"model":"m1"`, `"input_tokens":5`, `"requestId":"req_1"`, `"stop_reason":"end_turn"`},
		dialect.Codex:      {`"model":"m1"`, `"input_tokens":5`},
	} {
		for name, file := range exportTo(t, st, s.Ref(), to) {
			for _, part := range parts {
				require.Contains(t, string(file.Data), part, name)
			}
		}
	}
}

// An export puts the texts that a compaction carries into the summary, but no texts of
// hidden entries.
func TestExportCarried(t *testing.T) {
	st := inMemory()
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "ana"})
	require.NoError(t, err)
	var ids []string
	for _, text := range []string{"Never touch the vendor folder.", "My name is Ana.", "Go on."} {
		added, err := s.Append(t.Context(), transcript.UserText(text))
		require.NoError(t, err)
		ids = append(ids, added...)
	}
	_, err = s.Append(t.Context(), transcript.Compaction{
		Summary: "They worked.", FirstKept: ids[2], CoversTo: ids[1],
		Said: []transcript.Carried{{Entry: ids[0], Text: "Never touch the vendor folder."}, {Entry: ids[1], Text: "My name is Ana."}},
	})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.Hide{Entries: []string{ids[1]}})
	require.NoError(t, err)
	for _, to := range []dialect.Dialect{dialect.Pi, dialect.ClaudeCode, dialect.Codex, dialect.ZyHive} {
		again := inMemory()
		back := importAll(t, again, sessionsIn(t, exportTo(t, st, s.Ref(), to)), nil)
		require.Len(t, back, 1)
		there, err := again.Get(t.Context(), back[0].Session)
		require.NoError(t, err)
		h, err := there.History(t.Context())
		require.NoError(t, err)
		var texts []string
		for _, m := range h.Messages {
			texts = append(texts, m.Text())
		}
		text := strings.Join(texts, "\n")
		require.Contains(t, text, "They worked.", to)
		require.Contains(t, text, "The user said:\n- Never touch the vendor folder.", to)
		require.NotContains(t, text, "Ana", to)
		require.Contains(t, text, "Go on.", to)
	}
}

func exportTo(t *testing.T, st *session.Store, ref session.Ref, d dialect.Dialect) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	w, err := dialect.NewWriter(d, func(name string) (io.WriteCloser, error) {
		return &exportedFile{to: files, name: name}, nil
	})
	require.NoError(t, err)
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	_, err = exchange.Export(t.Context(), s, w, dialect.Session{})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return files
}

// saidIn returns the words, calls and results of a whole conversation, or of
// its history.
func saidIn(t *testing.T, st *session.Store, ref session.Ref, whole bool) []string {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	h, err := s.History(t.Context())
	if whole {
		h, err = exchange.FullHistory(t.Context(), s)
	}
	require.NoError(t, err)
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

// An export to OpenViking keeps the used contexts and the texts of archives.
func TestExportUsed(t *testing.T) {
	st := inMemory()
	s := load(t, st)
	said := add(t, s, transcript.UserText("hi"), transcript.AssistantText("hello"))
	add(t, s, transcript.Compaction{Summary: "greeted\nat length", CoversTo: said[1]},
		transcript.Commit{N: 1, Abstract: "one greeting", Overview: "greeted at length", FirstEntry: said[0], LastEntry: said[1]},
		transcript.Used{Contexts: []string{"viking://a", "viking://b"}})
	files := exportTo(t, st, s.Ref(), dialect.OpenViking)
	for name, want := range map[string]string{
		".relations.json": `"viking://b"`, "history/archive_001/.abstract.md": "one greeting", "history/archive_001/.overview.md": "greeted at length",
	} {
		file := files["session/"+s.Ref().ID+"/"+name]
		if file == nil || !strings.Contains(string(file.Data), want) {
			t.Errorf("%s: %+v, want %s in it", name, file, want)
		}
	}
}

// The exported lines of a session are the lines of its transcript.
func TestExportLines(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir)
	s := load(t, st)
	first := add(t, s, transcript.UserText("hi"))
	add(t, s, transcript.AssistantText("hello"))
	require.NoError(t, s.Rewind(t.Context(), first[0]))
	var out bytes.Buffer
	require.NoError(t, exchange.Lines(t.Context(), s, &out))
	file, err := os.ReadFile(dir + "/agents/main/sessions/" + s.Ref().ID + ".jsonl")
	if err != nil || out.String() != string(file) {
		t.Errorf("exported\n%s\nwant (%v)\n%s", &out, err, file)
	}
}

func TestExportRequest(t *testing.T) {
	st := inMemory()
	s := load(t, st)
	add(t, s, transcript.System{Text: "Be brief."}, transcript.UserText("hi"))
	var out bytes.Buffer
	_, err := exchange.Request(t.Context(), s, &out, anthropic.Format{}, transcript.Request{Model: "m", System: "You help."})
	require.NoError(t, err)
	var body struct {
		Model, System string
		Messages      []struct{ Role string }
	}
	if err := json.Unmarshal(out.Bytes(), &body); err != nil || body.Model != "m" || len(body.Messages) != 1 || body.Messages[0].Role != "user" {
		t.Errorf("%s: %v", &out, err)
	}
	require.Equal(t, "You help.\n\nBe brief.", body.System)
}

// System prompts and the names of tools are where they were said, once, and counted
// where another program has no place for them. They are not words of the user.
func TestExportPrompts(t *testing.T) {
	s := load(t, inMemory())
	add(t, s, transcript.System{Text: "gone"}, transcript.UserText("taken back"))
	require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
	add(t, s, transcript.System{Text: "Be brief."}, transcript.UserText("question 1"))
	add(t, s, transcript.AssistantText("answer 1"))
	add(t, s, transcript.Tools{Names: []string{"read", "grep"}}, transcript.System{Text: "Be long."}, transcript.UserText("question 2"))
	ids := add(t, s, transcript.AssistantText("answer 2"), transcript.UserText("question 3"))
	add(t, s, transcript.System{Text: "Be long."}, transcript.Tools{Names: []string{"read", "grep"}},
		transcript.Compaction{Summary: "SUM", FirstKept: ids[1], CoversTo: ids[0], TurnsBefore: 2})
	add(t, s, transcript.AssistantText("answer 3"))
	var out bytes.Buffer
	require.NoError(t, exchange.Markdown(t.Context(), s, &out))
	var lines []string
	for line := range strings.Lines(out.String()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			lines = append(lines, strings.Split(text, " · ")[0])
		} else if text, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok {
			lines = append(lines, text)
		}
	}
	require.Equal(t, []string{
		"System prompt", "Be brief.", "User", "question 1", "Assistant", "answer 1",
		"Tools that may be called", "read, grep", "System prompt", "Be long.", "User", "question 2", "Assistant", "answer 2",
		"User", "question 3", "Summary of the above", "SUM", "Assistant", "answer 3",
	}, lines)
	for _, d := range []dialect.Dialect{
		dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex,
	} {
		w, err := dialect.NewWriter(d, func(string) (io.WriteCloser, error) { return &exportedFile{to: fstest.MapFS{}}, nil })
		require.NoError(t, err)
		lost, err := exchange.Export(t.Context(), s, w, dialect.Session{})
		require.NoError(t, err)
		require.Equal(t, 2, lost["system"], lost)
		require.Equal(t, 1, lost["tools"], lost)
		require.NoError(t, w.Close())
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
	require.NoError(t, err)
	for i, text := range hostile {
		input, err := json.Marshal(map[string]string{"text": text})
		require.NoError(t, err)
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
	require.NoError(t, exchange.Markdown(t.Context(), s, &out))
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
