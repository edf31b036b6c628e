package convert

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

const fixtures = "../../../../transcript/dialect/testdata"

var programs = []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code", "codex", "chatgpt", "claude-ai", "opencode", "gemini-cli"}

// histories returns the texts, calls and results of the whole conversation of
// every session below dir, sorted, since IDs change.
func histories(t *testing.T, dir string) []string {
	t.Helper()
	folder, err := dialect.ReadFolder(os.DirFS(dir))
	require.NoError(t, err)
	var all []string
	for s := range folder.Sessions() {
		if s.Err != nil {
			continue
		}
		fold := rebuild.New(&rebuild.Options{Full: true})
		for batch, err := range transcript.Batches(s.Records()) {
			require.NoError(t, err)
			require.NoError(t, fold.Add(batch))
		}
		var sb strings.Builder
		role := transcript.Role("")
		for _, m := range fold.History().Messages {
			var said []string
			for _, b := range m.Content {
				switch b := b.(type) {
				case transcript.TextBlock:
					said = append(said, strings.Fields(b.Text)...)
				case transcript.ToolCallBlock:
					said = append(said, "call", b.ID)
				case transcript.ToolResultBlock:
					said = append(said, "result", b.CallID, b.Text())
				}
			}
			if len(said) > 0 && m.Role != role {
				role = m.Role
				sb.WriteString("|" + string(role))
			}
			if len(said) > 0 {
				sb.WriteString(" " + strings.Join(said, " "))
			}
		}
		all = append(all, sb.String())
	}
	slices.Sort(all)
	return all
}

// files returns what is in the files below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		all[name] = string(data)
		return err
	})
	require.NoError(t, err)
	return all
}

var (
	callID    = regexp.MustCompile(`\b(call|result) \S+`)
	continued = regexp.MustCompile(`^.*The summary below covers the earlier portion of the conversation\. \S+ `)
)

// inClaudeCode returns histories without the parts that Claude Code has in another form.
func inClaudeCode(histories []string) []string {
	var all []string
	for _, h := range histories {
		all = append(all, callID.ReplaceAllString(continued.ReplaceAllString(h, "|user "), "$1"))
	}
	slices.Sort(all)
	return all
}

// Whatever is converted says the same afterwards, in every format.
func TestConvert(t *testing.T) {
	for _, program := range programs {
		from := filepath.Join(fixtures, program)
		want := histories(t, from)
		for _, to := range []dialect.Dialect{
			dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex,
		} {
			dir := filepath.Join(t.TempDir(), "out")
			var out bytes.Buffer
			if err := convert(t, &out, to, dir, from); err != nil && !strings.Contains(err.Error(), "index") && !strings.Contains(err.Error(), "lists it") {
				t.Fatal(err)
			}
			got, want := histories(t, dir), want
			if to == dialect.ClaudeCode { // IDs fit the API there, and a summary that replaces nothing is a text
				got, want = inClaudeCode(got), inClaudeCode(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s to %s:\n%q\nwant\n%q", program, to, got, want)
			}
			if lines := strings.Count(out.String(), " messages"); lines != len(want) {
				t.Errorf("%s to %s: %d lines about %d sessions\n%s", program, to, lines, len(want), &out)
			}
			// A second time nothing is overwritten.
			before := files(t, dir)
			if err := convert(t, &out, to, dir, from); err == nil || !strings.Contains(err.Error(), "exist") {
				t.Errorf("%s to %s, again: %v", program, to, err)
			}
			after := files(t, dir)
			for name, data := range before {
				if after[name] != data {
					t.Errorf("%s was changed", name)
				}
			}
		}
	}
}

// A folder in which one name is taken gets no file, whichever name it is.
func TestConvertRefused(t *testing.T) {
	for to, from := range map[string]string{"mini-claw": "claw0", "claw0": "zyhive", "zyhive": "claw0", "openviking": "claw0"} {
		source := filepath.Join(fixtures, from)
		whole := t.TempDir()
		var out bytes.Buffer
		_ = Job{from: []string{source}, to: to, dir: whole}.failure(t.Context(), &out) // a fixture lists sessions that are not there
		names := files(t, whole)
		require.NotEmpty(t, names, &out)
		for name := range names {
			dir := t.TempDir()
			rel, err := filepath.Rel(whole, name)
			require.NoError(t, err)
			taken := filepath.Join(dir, rel)
			require.NoError(t, os.MkdirAll(filepath.Dir(taken), 0o700))
			require.NoError(t, os.WriteFile(taken, []byte("mine"), 0o600))
			sum, err := Job{from: []string{source}, to: to, dir: dir}.Run(t.Context(), &out)
			require.ErrorIs(t, err, fs.ErrExist)
			require.Empty(t, sum.Sessions)
			require.Equal(t, map[string]string{taken: "mine"}, files(t, dir), rel)
		}
	}
}

// fullDisk fails to write.
type fullDisk struct{ io.WriteCloser }

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("the disk is full")

// If a file cannot be written, the files and folders of the job are removed, and no other.
func TestConvertUndone(t *testing.T) {
	for _, to := range []dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking} {
		for fails := 0; ; fails++ { // the number of the file that fails
			dir := t.TempDir()
			others := filepath.Join(dir, "agents", "claw0", "notes.txt")
			require.NoError(t, os.MkdirAll(filepath.Dir(others), 0o700))
			require.NoError(t, os.WriteFile(others, []byte("mine"), 0o600))
			f, err := openFolder(Job{dir: dir})
			require.NoError(t, err)
			n := 0
			w, err := dialect.NewWriter(to, func(name string) (io.WriteCloser, error) {
				file, err := f.create(name)
				if n++; n > fails && err == nil {
					return fullDisk{file}, nil
				}
				return file, err
			})
			require.NoError(t, err)
			p := &program{folder: f, w: w}
			folder, err := dialect.ReadFolder(os.DirFS(filepath.Join(fixtures, "openviking")))
			require.NoError(t, err)
			require.NoError(t, p.Write(t.Context(), "", sources(folder), func(r Result) error {
				require.True(t, r.err == nil || errors.Is(r.err, errFull), r.err)
				return nil
			}))
			err = p.Close()
			if n <= fails {
				require.NoError(t, err)
				require.Greater(t, n, 2, to)
				break
			}
			require.ErrorIs(t, err, errFull)
			require.Equal(t, map[string]string{others: "mine"}, files(t, dir))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1, to)
		}
	}
}

// A job that is stopped leaves no file.
func TestConvertStopped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	stop := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	sum, err := Job{from: []string{filepath.Join(fixtures, "mini-claw")}, to: "claw0", dir: dir}.Run(ctx, stop)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, sum.Sessions, sum.Failed)
	require.Empty(t, files(t, dir))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A session of our own store, and a single file.
func TestConvertNative(t *testing.T) {
	dir := t.TempDir()
	st, err := session.Open(dir, nil)
	require.NoError(t, err)
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	for _, m := range []transcript.Message{transcript.UserText("hi"), transcript.AssistantText("hello")} {
		_, err := s.Append(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
	for _, from := range []string{dir, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")} {
		to := t.TempDir()
		var out bytes.Buffer
		require.NoError(t, convert(t, &out, dialect.MiniClaw, to, from))
		if got := histories(t, to); !slices.Equal(got, []string{"|user hi|assistant hello"}) {
			t.Errorf("%s: %q\n%s", from, got, &out)
		}
		for name := range files(t, to) {
			if base := filepath.Base(name); base != "sessions.json" && !strings.HasPrefix(base, "agent_main_cli") && !strings.HasPrefix(base, "main_cli_user_") {
				t.Errorf("file %s", base)
			}
		}
	}
}

// Into a store everything comes once, and what a source has more later.
func TestConvertToStore(t *testing.T) {
	for _, program := range programs {
		from := filepath.Join(fixtures, program)
		want := histories(t, from)
		dir := filepath.Join(t.TempDir(), "store")
		var dry, out bytes.Buffer
		j := Job{from: []string{from}, to: "native", dir: dir, dry: true}
		_ = j.failure(t.Context(), &dry) // a fixture lists sessions that are not there
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a dry run has made %s", program, dir)
		}
		for range 2 {
			if err := convert(t, &out, "native", dir, from); err != nil && !strings.Contains(err.Error(), "lists it") && !strings.Contains(err.Error(), "index") {
				t.Fatal(err)
			}
			if got := histories(t, dir); !slices.Equal(got, want) {
				t.Errorf("%s:\n%q\nwant\n%q", program, got, want)
			}
		}
		if program == "claude-code" {
			require.Contains(t, out.String(), ", set aside 2 branch")
		}
		if first, _, _ := strings.Cut(out.String(), "\n"); !strings.HasPrefix(dry.String(), first) {
			t.Errorf("%s: a dry run says\n%swant\n%s", program, &dry, &out)
		}
	}
}

// A document for each session, and nothing for a dry run.
func TestConvertToDocuments(t *testing.T) {
	from := filepath.Join(fixtures, "claude-code")
	for to, sign := range map[dialect.Dialect]string{
		"jsonl": `{"type":"session"`, "markdown": "# ",
		"anthropic": `{"model":"m"`, "openai-chat": `{"model":"m"`, "openai-responses": `{"model":"m"`, "gemini": `{"contents":[`, "bedrock": `"content":[{"text":`,
	} {
		dir := filepath.Join(t.TempDir(), "out")
		var out bytes.Buffer
		dry := Job{from: []string{from}, to: string(to), dir: dir, dry: true}
		require.NoError(t, dry.failure(t.Context(), &out))
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a dry run has made %s", to, dir)
		}
		require.NoError(t, convert(t, &out, to, dir, from))
		written := files(t, dir)
		if len(written) != len(histories(t, from)) {
			t.Errorf("%s: %d files", to, len(written))
		}
		for name, data := range written {
			if !strings.Contains(data, sign) {
				t.Errorf("%s: %.80s", name, data)
			}
		}
		if err := dry.failure(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "exist") {
			t.Errorf("%s: a dry run over files that are there: %v", to, err)
		}
	}
}

func TestArguments(t *testing.T) {
	j, err := New([]string{"a", "b", "dir"}, "zyhive", "", true)
	require.NoError(t, err)
	require.Equal(t, Job{from: []string{"a", "b"}, to: "zyhive", dir: "dir", dry: true}, j)
	for _, c := range []struct{ to, names, want string }{
		{"", "a dir", "no --to"}, {"chatgpt", "a b", "no format"}, {"zyhive", "dir", "only one of"}, {"zyhive", "", "no FROM"},
	} {
		_, err := New(strings.Fields(c.names), c.to, "", false)
		require.ErrorContains(t, err, c.want)
	}
	for _, names := range [][]string{{"", "dir"}, {"a", ""}} {
		_, err := New(names, "zyhive", "", false)
		require.ErrorContains(t, err, "empty name")
	}
}

// failure is the error of Run.
func (j Job) failure(ctx context.Context, out io.Writer) error {
	_, err := j.Run(ctx, out)
	return err
}

func TestConvertErrors(t *testing.T) {
	empty := t.TempDir()
	text := filepath.Join(t.TempDir(), "a.txt")
	require.NoError(t, os.WriteFile(text, []byte("hello"), 0o600))
	for from, want := range map[string]string{
		empty: "contain no session", text: "not a transcript", filepath.Join(empty, "nowhere"): "no such file",
	} {
		if err := convert(t, new(bytes.Buffer), dialect.Claw0, t.TempDir(), from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("from %s: %v", from, err)
		}
	}
	for dir, want := range map[string]string{text: "is not a folder", empty: "is in", filepath.Join(empty, "below"): "is in"} {
		if err := convert(t, new(bytes.Buffer), dialect.Claw0, dir, empty); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v", dir, err)
		}
	}
}

// A link does not hide that what is written would be read.
func TestConvertThroughLink(t *testing.T) {
	from := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(from, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	for _, dir := range []string{link, filepath.Join(link, "new")} {
		if err := convert(t, new(bytes.Buffer), "jsonl", dir, from); err == nil || !strings.Contains(err.Error(), "which is read") {
			t.Errorf("to %s: %v", dir, err)
		}
	}
}

// A document that cannot be written whole is not left behind.
func TestConvertHalf(t *testing.T) {
	dir := t.TempDir()
	f, err := openFolder(Job{dir: dir})
	require.NoError(t, err)
	half := documents["markdown"]
	half.write = func(_ context.Context, _ *session.Session, w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, errors.New("the disk is full"))
	}
	documents["half"] = half
	defer delete(documents, "half")
	docs := documentFolder{f, Job{to: "half"}, map[string]bool{}}
	folder, err := dialect.ReadFolder(os.DirFS("../../../../transcript/dialect/testdata/claw0"))
	require.NoError(t, err)
	n := 0
	require.NoError(t, docs.Write(t.Context(), "", sources(folder), func(r Result) error {
		n++
		require.ErrorContains(t, r.err, "the disk is full")
		return nil
	}))
	if left, err := os.ReadDir(dir); n == 0 || len(left) > 0 || err != nil {
		t.Errorf("of %d sessions %v is left, %v", n, left, err)
	}
	require.NoError(t, docs.Close())
}

// An import limits the memory for garbage, unless GOMEMLIMIT does.
func TestIntoLimitsMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int64{math.MaxInt64: softLimit, 1 << 30: 1 << 30} {
		debug.SetMemoryLimit(limit)
		folder, err := dialect.ReadFolder(os.DirFS(filepath.Join(fixtures, "claw0")))
		require.NoError(t, err)
		st := session.OpenDriver(memdriver.New(nil), nil)
		require.NoError(t, Into(t.Context(), st, sources(folder), exchange.ImportOptions{}, func(Result) error { return nil }))
		require.Equal(t, want, debug.SetMemoryLimit(-1))
	}
}

// sources returns the sessions of a folder as sources.
func sources(folder *dialect.Folder) iter.Seq[exchange.Source] {
	return func(yield func(exchange.Source) bool) {
		for s := range folder.Sessions() {
			if !yield(s) {
				return
			}
		}
	}
}

func convert(t *testing.T, out *bytes.Buffer, to dialect.Dialect, dir, from string) error {
	t.Helper()
	return Job{from: []string{from}, to: string(to), dir: dir, model: "m"}.failure(t.Context(), out)
}
