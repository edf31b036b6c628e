package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

var writable = []dialect.Dialect{
	dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex,
}

// disk is a folder in memory.
type disk struct {
	fstest.MapFS
	t testing.TB
}

type diskFile struct {
	bytes.Buffer
	done func([]byte)
}

func (f *diskFile) Close() error { f.done(f.Bytes()); return nil }

func (d disk) create(name string) (io.WriteCloser, error) {
	if _, twice := d.MapFS[name]; twice || !fs.ValidPath(name) {
		d.t.Errorf("create %q: twice or not valid", name)
	}
	d.MapFS[name] = nil // taken
	return &diskFile{done: func(data []byte) { d.MapFS[name] = &fstest.MapFile{Data: data} }}, nil
}

// write writes sessions and returns the folder and the losses.
func write(t testing.TB, d dialect.Dialect, sessions iter.Seq[dialect.Session], entries func(dialect.Session) iter.Seq2[transcript.Entry, error]) (fstest.MapFS, dialect.Losses) {
	t.Helper()
	out := disk{fstest.MapFS{}, t}
	w, err := dialect.NewWriter(d, out.create)
	require.NoError(t, err)
	losses := dialect.Losses{}
	for s := range sessions {
		lost, err := w.Write(s, entries(s))
		require.NoError(t, err)
		for name, n := range lost {
			losses[name] += n
		}
	}
	for range 2 {
		require.NoError(t, w.Close())
	}
	if _, err := w.Write(dialect.Session{}, entries(dialect.Session{})); err == nil {
		t.Error("written after Close")
	}
	return out.MapFS, losses
}

// entriesOf are the entries of a session as its reader gives them.
func entriesOf(s dialect.Session) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for rec, err := range s.Records() {
			if err != nil || rec.Damage == nil {
				if !yield(rec.Entry, err) || err != nil {
					return
				}
			}
		}
	}
}

// conversation has every kind of block and of entry.
func conversation(t testing.TB) []transcript.Entry {
	t.Helper()
	n := 0
	at := time.Date(2026, 3, 1, 9, 0, 0, 123456000, time.UTC)
	var all []transcript.Entry
	add := func(items ...transcript.Item) {
		t.Helper()
		at = at.Add(1500 * time.Millisecond)
		batch, err := transcript.NewBatch(at, func() string { n++; return fmt.Sprintf("e%02d", n) }, items...)
		require.NoError(t, err)
		all = append(all, batch...)
	}
	call := func(id, input string) transcript.ToolCallBlock {
		return transcript.ToolCallBlock{ID: id, Name: "look", Input: json.RawMessage(input)}
	}
	answer := func(blocks ...transcript.Block) transcript.Response {
		return transcript.Response{API: "anthropic", Model: "m", Message: transcript.Message{Role: transcript.RoleAssistant, Content: blocks}}
	}
	add(transcript.UserText("Was ist da? 看"))
	add(answer(transcript.ThinkingBlock{Thinking: "hm", Signature: "c2ln"}, transcript.TextBlock{Text: "I look."}, call("c/1", `{"p": 1}`), call("c2", `{}`)))
	add(transcript.ToolResult("c2", "two"))
	add(transcript.ToolError("c/1", "no"))
	add(answer(transcript.TextBlock{Text: "Nothing."}, transcript.TextBlock{Text: "Sorry."}))
	add(transcript.Used{Contexts: []string{"viking://resources/a/", "viking://resources/a/"}})
	add(transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.TextBlock{Text: "And this?"},
		transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "aGk="}},
		transcript.ContextBlock{URI: "viking://resources/a/", Kind: "resource", Abstract: "An a"},
	}})
	add(transcript.Compaction{Summary: "Looked twice.\nFound nothing.", FirstKept: all[len(all)-1].ID, CoversTo: all[len(all)-1].ID, TokensBefore: 900, TokensAfter: 90})
	add(transcript.Commit{N: 1, Abstract: "Looked"})
	add(answer(transcript.TextBlock{Text: "Still nothing."}))
	add(transcript.Custom{Name: "app"})
	add(transcript.UserText("Wait\u2028for it"))
	return all
}

func seq(entries []transcript.Entry) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func printed(fsys fstest.MapFS) string {
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fsys)) {
		fmt.Fprintf(&sb, "-- %s --\n%s\n", name, strings.TrimSuffix(string(fsys[name].Data), "\n"))
	}
	return sb.String()
}

// Every member of every record, index and file is as the programs write it.
func TestWriteGolden(t *testing.T) {
	created := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	sessions := []dialect.Session{
		{ID: "00aa11bb22cc", Key: "main:cli:ana", Agent: "main", Title: "Looking", Created: created},
		{ID: "0190-not-hex", Key: "main:cli:a/b", Agent: "main", Created: created},
	}
	for _, d := range writable {
		out, losses := write(t, d, slices.Values(sessions), func(s dialect.Session) iter.Seq2[transcript.Entry, error] {
			if s.Title == "" {
				return seq(nil)
			}
			return seq(conversation(t))
		})
		got := fmt.Sprintf("lost: %v\n%s", losses, printed(out))
		golden := filepath.Join("testdata", "written-"+string(d)+".golden")
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", d, got, want)
		}
	}
}

// said is the content of a conversation: the texts, calls and results of its
// entries in order.
func said(t testing.TB, entries iter.Seq2[transcript.Entry, error]) []string {
	t.Helper()
	var all []string
	seen := map[string]bool{}
	for e, err := range entries {
		require.NoError(t, err)
		f, _ := e.Body.(transcript.MessageLine)
		for _, b := range f.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				texts := []string{b.Text}
				if f.Role == transcript.RoleUser { // programs join these
					texts = strings.Split(b.Text, "\n")
				}
				for _, text := range texts {
					all = append(all, string(f.Role)+" "+text)
				}
			case transcript.ToolCallBlock:
				if !seen[b.ID] { // claw0 has it twice
					all = append(all, "call "+b.ID+" "+b.Name+" "+string(b.Input))
				}
				seen[b.ID] = true
			case transcript.ToolResultBlock:
				all = append(all, "result "+b.CallID+" "+b.Text())
			}
		}
	}
	slices.Sort(all) // results come before calls in mini-claw, and after them elsewhere
	return all
}

// callOrResult begins a call or a result with its ID.
var callOrResult = regexp.MustCompile(`^(call|result) \S+`)

// A file that is written, read and written again has the same bytes.
func TestWriteReadWrite(t *testing.T) {
	for _, program := range programs {
		from, err := dialect.ReadFolder(os.DirFS(filepath.Join("testdata", program)))
		require.NoError(t, err)
		readable := func(f *dialect.Folder) iter.Seq[dialect.Session] {
			return func(yield func(dialect.Session) bool) {
				for s := range f.Sessions() {
					if s.Err == nil && !yield(s) {
						return
					}
				}
			}
		}
		for _, d := range writable {
			once, lost := write(t, d, readable(from), entriesOf)
			back, err := dialect.ReadFolder(once)
			require.NoError(t, err)
			if len(back.Others) > 0 && d != dialect.OpenViking {
				t.Errorf("%s as %s: files of no session %q", program, d, back.Others)
			}
			var before, after []string
			for s := range readable(from) {
				before = append(before, said(t, entriesOf(s))...)
			}
			for s := range back.Sessions() {
				if s.Err != nil || s.Dialect != d || !s.Sure && s.Messages > 0 || len(s.Damage) > 0 || len(s.Unknown) > 0 {
					t.Errorf("%s as %s: %+v", program, d, s)
				}
				after = append(after, said(t, entriesOf(s))...)
			}
			slices.Sort(before)
			slices.Sort(after)
			if n := lost[transcript.TypeToolResult]; n > 0 { // results without a call
				before = slices.DeleteFunc(before, func(s string) bool { return strings.HasPrefix(s, "result ") && !slices.Contains(after, s) })
				if n != 1 {
					t.Errorf("%s as %s: lost %v", program, d, lost)
				}
			}
			switch d {
			case dialect.ClaudeCode: // a summary that replaces nothing is a text there, and IDs fit the API
				after = slices.DeleteFunc(after, func(s string) bool { return strings.HasPrefix(s, "user ") && !slices.Contains(before, s) })
				for _, list := range [][]string{before, after} {
					for i, s := range list {
						list[i] = callOrResult.ReplaceAllString(s, "$1")
					}
					slices.Sort(list)
				}
			case dialect.Codex: // the input of a call is an object there
				const broken = `"{\"p\":\"a\",\"c\":\"x"`
				for i, s := range before {
					if rest, ok := strings.CutSuffix(s, broken); ok {
						before[i] = fmt.Sprintf(`%s{"arguments":%q}`, rest, broken)
					}
				}
				slices.Sort(before)
			default:
			}
			for _, list := range []*[]string{&before, &after} { // content of texts alone may be joined or split
				*list = slices.DeleteFunc(*list, func(s string) bool { return program == "openviking" && strings.HasPrefix(s, "assistant [resource") })
			}
			if !slices.Equal(before, after) {
				t.Errorf("%s as %s:\n%q\nwant\n%q", program, d, after, before)
			}
			twice, losses := write(t, d, back.Sessions(), entriesOf)
			again, err := dialect.ReadFolder(twice)
			require.NoError(t, err)
			thrice, _ := write(t, d, again.Sessions(), entriesOf)
			if a, b := printed(twice), printed(thrice); a != b {
				t.Errorf("%s as %s, written again:\n%s\nwas\n%s", program, d, b, a)
			}
			for name := range losses {
				if name != "custom" && name != "time" && name != "commit" && name != "meta" {
					t.Errorf("%s as %s: %s lost the second time", program, d, name)
				}
			}
		}
	}
}

// Content that the target cannot express is an error if leaving it out would
// change the conversation, and so is a failing disk.
func TestWriteErrors(t *testing.T) {
	for _, d := range []dialect.Dialect{"", dialect.Native, dialect.ChatGPT, dialect.OpenCode, dialect.ZyHiveLog} {
		if _, err := dialect.NewWriter(d, nil); err == nil {
			t.Errorf("NewWriter(%q)", d)
		}
	}
	for _, d := range writable {
		for _, body := range []transcript.Body{transcript.Rewind{To: "a"}, transcript.Clip{}, transcript.Hide{}} {
			w, err := dialect.NewWriter(d, disk{fstest.MapFS{}, t}.create)
			require.NoError(t, err)
			if _, err := w.Write(dialect.Session{ID: "s"}, seq([]transcript.Entry{{ID: "e", Body: body}})); err == nil || !strings.Contains(err.Error(), "fold") {
				t.Errorf("%s: %T: %v", d, body, err)
			}
		}
		for after := range 3 {
			n, open := 0, 0
			w, err := dialect.NewWriter(d, func(name string) (io.WriteCloser, error) {
				if n++; n > after {
					return nil, errDisk
				}
				open++
				return fullFile{&open}, nil
			})
			require.NoError(t, err)
			if _, err := w.Write(dialect.Session{ID: "s"}, seq(conversation(t))); !errors.Is(err, errDisk) {
				t.Errorf("%s: after %d files: %v", d, after, err)
			}
			if open != 0 {
				t.Errorf("%s: %d files left open", d, open)
			}
		}
		failed := func(yield func(transcript.Entry, error) bool) { yield(transcript.Entry{}, errDisk) }
		w, err := dialect.NewWriter(d, disk{fstest.MapFS{}, t}.create)
		require.NoError(t, err)
		if _, err := w.Write(dialect.Session{ID: "ses-1"}, failed); !errors.Is(err, errDisk) {
			t.Errorf("%s: entries that cannot be read: %v", d, err)
		}
		if _, err := w.Write(dialect.Session{ID: "ses-1"}, seq(nil)); err != nil { // no obstacle for another
			t.Errorf("%s: after an error: %v", d, err)
		}
	}
}

// device is a name that Windows takes for a device.
var device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|(com|lpt)[0-9])(\.|$)`)

// fullFile is on a full disk.
type fullFile struct{ open *int }

func (fullFile) Write([]byte) (int, error) { return 0, errDisk }
func (f fullFile) Close() error            { *f.open--; return errDisk }

// File names come from the sessions and never lead out of the folder, and two
// sessions never share a file.
func TestWriteNames(t *testing.T) {
	long := strings.Repeat("x", 500)
	var sessions []dialect.Session
	for _, name := range []string{"", ".", "..", "../../up", "a/b", `a\b`, "A", "a", "ses-1", "SES-1", "ses-../x", "\x00", "日本", long, long + "y", "a:b_c:d", "a_b:c:d", "CON", "nul.x", "lpt1", "a."} {
		sessions = append(sessions, dialect.Session{ID: name, Key: name, Agent: name}, dialect.Session{ID: name})
	}
	for _, d := range writable {
		out, _ := write(t, d, slices.Values(sessions), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(conversation(t)) })
		folded := map[string]string{}
		transcripts := 0
		for name := range out {
			if other, ok := folded[strings.ToLower(name)]; ok {
				t.Errorf("%s: %q and %q", d, name, other)
			}
			folded[strings.ToLower(name)] = name
			for element := range strings.SplitSeq(name, "/") {
				if len(element) > 255 || strings.HasSuffix(element, ".") || device.MatchString(element) {
					t.Errorf("%s: %q", d, name)
				}
			}
			if strings.HasSuffix(name, ".jsonl") && !strings.Contains(name, "/history/") {
				transcripts++
			}
		}
		if transcripts != len(sessions) {
			t.Errorf("%s: %d transcripts of %d sessions", d, transcripts, len(sessions))
		}
	}
}

// Summaries name no tools that another program lacks.
func TestWriteNotice(t *testing.T) {
	entries := conversation(t)
	for i, e := range entries {
		if c, ok := e.Body.(transcript.Compaction); ok {
			c.Summary += "\n" + recalltool.Left{Messages: 4, Files: 1}.Notice()
			entries[i].Body = c
		}
	}
	for _, d := range writable {
		noticed, _ := write(t, d, slices.Values([]dialect.Session{{ID: "s"}}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(entries) })
		plain, _ := write(t, d, slices.Values([]dialect.Session{{ID: "s"}}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(conversation(t)) })
		require.Equal(t, printed(plain), printed(noticed), d)
	}
}

// The index of mini-claw lists all sessions of a key, in whatever order sessions are
// written: the last used one under the key, the others under keys of their own.
func TestWriteSharedKey(t *testing.T) {
	at := func(day, hour int) dialect.Session {
		return dialect.Session{ID: strings.Repeat(strconv.Itoa(day), 12), Key: "main:cli:ana", Created: time.Date(2026, 3, day, hour, 5, 9, 0, time.UTC)}
	}
	other := dialect.Session{ID: "999999999999", Key: "main:cli:ana_080509"}
	out, _ := write(t, dialect.MiniClaw, slices.Values([]dialect.Session{at(3, 8), at(4, 9), at(2, 8), at(1, 7), other}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(nil) })
	var index map[string]struct {
		Key  string `json:"session_key"`
		ID   string `json:"session_id"`
		File string `json:"transcript_file"`
	}
	require.NoError(t, json.Unmarshal(out["sessions.json"].Data, &index))
	got := map[string]string{}
	for key, row := range index {
		require.Equal(t, key, row.Key)
		require.Contains(t, out, "transcripts/"+row.File)
		got[key] = row.ID[:1]
	}
	require.Equal(t, map[string]string{
		"main:cli:ana": "4", "main:cli:ana_080509": "9", "main:cli:ana_080509_2": "3", "main:cli:ana_080509_3": "2", "main:cli:ana_070509": "1",
	}, got)
}
