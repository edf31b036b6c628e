package dialect_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// programs are the folders in testdata.
var programs = []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code", "codex", "chatgpt", "claude-ai", "opencode", "gemini-cli"}

// describe returns a text about everything found in a folder.
func describe(t *testing.T, fsys fs.FS) string {
	t.Helper()
	f, err := dialect.ReadFolder(fsys)
	require.NoError(t, err)
	var sb strings.Builder
	for _, i := range f.Indexes {
		fmt.Fprintf(&sb, "index %s %s %d %v\n", i.Path, i.Dialect, i.Sessions, i.Err)
	}
	for _, m := range f.Memories {
		fmt.Fprintf(&sb, "memory %s %s\n", m.Category, m.Path)
	}
	for _, o := range f.Others {
		fmt.Fprintf(&sb, "other %s\n", o)
	}
	for s := range f.Sessions() {
		fmt.Fprintf(&sb, "\nsession %q %s sure=%v in %s\n", s.ID, s.Dialect, s.Sure, s.Path)
		when := func(t time.Time) string { return t.Format(time.RFC3339) }
		fmt.Fprintf(&sb, "  key=%q agent=%q title=%q labels=%q %s %s indexed=%v put away=%v\n",
			s.Key, s.Agent, s.Title, s.Labels, when(s.Created), when(s.Updated), s.Indexed, s.PutAway)
		fmt.Fprintf(&sb, "  messages=%d compactions=%d asides=%v unknown=%v damage=%v archives=%q\n", s.Messages, s.Compactions, s.Asides, s.Unknown, s.Damage, s.Archives)
		if s.Parent != "" {
			fmt.Fprintf(&sb, "  parent=%q call=%q\n", s.Parent, s.Call)
		}
		if s.Err != nil {
			fmt.Fprintf(&sb, "  %v\n", s.Err)
			continue
		}
		for r, err := range s.Records() {
			require.NoError(t, err)
			fmt.Fprintf(&sb, "  %s %s\n", r.Entry.ID, show(r))
		}
	}
	return sb.String()
}

func TestFolders(t *testing.T) {
	for _, program := range programs {
		got := describe(t, os.DirFS(filepath.Join("testdata", program)))
		golden := filepath.Join("testdata", program+".golden")
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", program, got, want)
		}
	}
}

// plainFS opens files that can only be read from front to back.
type plainFS struct{ fs.FS }

type plainFile struct{ fs.File }

func (p plainFS) Open(name string) (fs.File, error) {
	f, err := p.FS.Open(name)
	if _, isDir := f.(fs.ReadDirFile); err != nil || isDir {
		return f, err
	}
	return plainFile{f}, nil
}

// A file system need not give files that can be read at any offset.
func TestFoldersWithoutReaderAt(t *testing.T) {
	for _, program := range programs {
		fsys := fstest.MapFS{}
		root := filepath.Join("testdata", program)
		if err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			rel, _ := filepath.Rel(root, name)
			fsys[filepath.ToSlash(rel)] = &fstest.MapFile{Data: data}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if got, want := describe(t, plainFS{fsys}), describe(t, fsys); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", program, got, want)
		}
	}
}

// Errors of an index are reported, and sessions it does not list are found.
func TestFolderIndexes(t *testing.T) {
	const line = `{"type":"user","content":"x","ts":1}` + "\n"
	for name, data := range map[string]string{
		"nothing": "", "torn": `{"a":{"label":`, "array": `[]`, "text": "hello", "NUL": "\x00\x00",
	} {
		f, err := dialect.ReadFolder(fstest.MapFS{
			"sessions.json":    {Data: []byte(data)},
			"sessions/a.jsonl": {Data: []byte(line)},
		})
		if err != nil || len(f.Indexes) != 1 || f.Indexes[0].Err == nil || !strings.Contains(f.Indexes[0].Err.Error(), "sessions.json") {
			t.Errorf("%s: %+v, %v", name, f.Indexes, err)
		}
		found := 0
		for s := range f.Sessions() {
			if found++; s.ID != "a" || s.Messages != 1 || s.Err != nil {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if found != 1 {
			t.Errorf("%s: %d sessions", name, found)
		}
	}
	f, err := dialect.ReadFolder(fstest.MapFS{
		"sessions.json": {Data: []byte(`{"../b":{"label":"x","created_at":"..."},"a":5}`)},
		"b.jsonl":       {Data: []byte(line)},
	})
	require.NoError(t, err)
	for s := range f.Sessions() {
		if s.ID == "../b" {
			if s.Err == nil {
				t.Errorf("followed out of its folder: %+v", s)
			}
			for _, err := range s.Records() {
				if err == nil {
					t.Error("records of a file that is not there")
				}
			}
		}
	}
}

// brokenFS fails to read one file.
type brokenFS struct {
	fs.FS
	name string
}

type brokenFile struct {
	fs.File
	io.Reader
}

func (f brokenFile) Read(p []byte) (int, error) { return f.Reader.Read(p) }

var errDisk = errors.New("disk on fire")

func (b brokenFS) Open(name string) (fs.File, error) {
	f, err := b.FS.Open(name)
	if err == nil && name == b.name {
		return brokenFile{f, iotest.ErrReader(errDisk)}, nil
	}
	return f, err
}

// An unreadable file hides no other, and does not count as empty.
func TestFolderErrors(t *testing.T) {
	const line = `{"type":"user","content":"x","ts":1}` + "\n"
	fsys := fstest.MapFS{"a.jsonl": {Data: []byte(line)}, "b.jsonl": {Data: []byte(line)}, "c.jsonl": {Data: []byte(line)}}
	f, err := dialect.ReadFolder(brokenFS{fsys, "b.jsonl"})
	require.ErrorIs(t, err, errDisk)
	require.Contains(t, err.Error(), "b.jsonl")
	var ids []string
	for s := range f.Sessions() {
		ids = append(ids, s.ID)
	}
	require.Equal(t, []string{"a", "c"}, ids)
	// A file is deleted after ReadFolder has found it and before Sessions reads it.
	whole, err := dialect.ReadFolder(fsys)
	require.NoError(t, err)
	delete(fsys, "b.jsonl")
	for s := range whole.Sessions() {
		if gone := errors.Is(s.Err, fs.ErrNotExist); gone != (s.ID == "b") {
			t.Errorf("%s: %v", s.ID, s.Err)
		}
	}
	_, err = dialect.ReadFolder(os.DirFS(filepath.Join(t.TempDir(), "nowhere")))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The number of an archive is in its name, or follows the last one.
func TestArchiveNumbers(t *testing.T) {
	fsys := fstest.MapFS{"session/s/messages.jsonl": {}}
	for _, name := range []string{"archive_x", "archive_007", "archive_99999999999999999999"} {
		fsys[path.Join("session/s/history", name, "messages.jsonl")] = &fstest.MapFile{Data: []byte(`{"id":"` + name + `","role":"user","parts":[]}` + "\n")}
	}
	f, err := dialect.ReadFolder(fsys)
	require.NoError(t, err)
	var numbers []int
	for s := range f.Sessions() {
		for rec, err := range s.Records() {
			require.NoError(t, err)
			if c, ok := rec.Entry.Body.(transcript.Commit); ok {
				numbers = append(numbers, c.N)
			}
		}
	}
	require.Equal(t, []int{1, 7, 8}, numbers)
}

// A folder of very many sessions costs time in proportion to their number.
func TestFolderManySessions(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range 300 {
		dir := fmt.Sprintf("session/s%d", i)
		fsys[path.Join(dir, "messages.jsonl")] = &fstest.MapFile{Data: []byte(`{"id":"m","role":"user","parts":[]}` + "\n")}
		fsys[path.Join(dir, "history/archive_001/messages.jsonl")] = &fstest.MapFile{Data: []byte(`{"id":"n","role":"user","parts":[]}` + "\n")}
	}
	f, err := dialect.ReadFolder(fsys)
	require.NoError(t, err)
	n := 0
	for s := range f.Sessions() {
		if n++; s.Messages != 2 || len(s.Archives) != 1 {
			t.Fatalf("%+v", s)
		}
	}
	if n != 300 || len(f.Others) > 0 {
		t.Errorf("%d sessions, other files %q", n, f.Others)
	}
}

// The records that a store keeps for itself are no conversations.
func TestOwnRecordsOfStore(t *testing.T) {
	line := `{"type":"session","id":"%s","ts":"2026-11-28T03:15:37Z","v":1,"key":"%s::%[1]s"}` + "\n"
	fsys := fstest.MapFS{}
	for agent, id := range map[string]string{"main": "alpha", "_removed": "none", "_settings": "masked"} {
		fsys["store/agents/"+agent+"/sessions/"+id+".jsonl"] = &fstest.MapFile{Data: fmt.Appendf(nil, line, id, agent)}
	}
	for _, dir := range []string{".", "store"} {
		sub, err := fs.Sub(fsys, dir)
		require.NoError(t, err)
		folder, err := dialect.ReadFolder(sub)
		require.NoError(t, err)
		var ids []string
		for s := range folder.Sessions() {
			ids = append(ids, s.ID)
		}
		require.Equal(t, []string{"alpha"}, ids)
	}
}
