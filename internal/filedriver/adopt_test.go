package filedriver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// open opens a driver, which is closed with the test at the latest.
func open(t *testing.T, dir string, opts *filedriver.Options) *filedriver.Driver {
	t.Helper()
	if opts == nil {
		opts = &filedriver.Options{Sync: filelog.SyncNever}
	}
	d, err := filedriver.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := d.Close(); !errors.Is(err, driver.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return d
}

// header makes the first line of a session.
func header(id, key string) func(int64) (driver.Row, driver.Line) {
	return func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Body: transcript.Header{Version: transcript.Version, Key: key, Gen: gen}}
		return driver.Row{ID: id}, driver.Line{ID: id, Data: e.Line()}
	}
}

func note(id string) driver.Line {
	e := transcript.Entry{ID: id, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
	return driver.Line{ID: id, Data: e.Line()}
}

func create(t *testing.T, d *filedriver.Driver, id, key string) driver.Row {
	t.Helper()
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: key}, header(id, key))
	require.NoError(t, err)
	return row
}

// loseIndex removes the index of an agent.
func loseIndex(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "agents/main/sessions.jsonl")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// A transcript that cannot be understood is still the session of its key.
func TestUndescribedIsNotEmpty(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	create(t, d, "b", "k")
	_, err := d.SetCurrent(t.Context(), driver.Ref{Agent: "main", ID: "a"}, 0, func(gen int64) driver.Line {
		e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: gen}}
		return driver.Line{ID: "c", Data: e.Line()}
	})
	require.NoError(t, err)
	require.NoError(t, d.Close())

	errNew := errors.New("a critical entry of a newer version")
	known := false
	opts := &filedriver.Options{
		Sync: filelog.SyncNever,
		Describe: func(row driver.Row, scan filedriver.Scan) (driver.Row, error) {
			for rec, err := range scan(0, driver.Forward) {
				if err != nil || !known {
					return driver.Row{ID: "x", Key: "x", Title: "half", Gen: 99, Size: 1}, errNew
				}
				if c, ok := rec.Entry.Body.(transcript.Current); ok {
					row.Gen = c.Gen
				}
			}
			row.Title = "described"
			return row, nil
		},
	}
	loseIndex(t, dir)
	for i := range 2 { // with the index lost, and with the one made in its place
		d = open(t, dir, opts)
		row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("new", "k"))
		if err != nil || row.ID != "a" || row.Gen != 3 || row.Key != "k" || row.Title != "" {
			t.Errorf("Load = %+v, %v; want session a", row, err)
		}
		create(t, d, fmt.Sprint("other", i), "other")
		require.NoError(t, d.Close())
	}
	// The next program understands it.
	known = true
	d = open(t, dir, opts)
	for _, row := range list(t, d) {
		if row.ID == "a" && (row.Title != "described" || row.Gen != 3 || !row.Current) {
			t.Errorf("List has %+v", row)
		}
	}
}

// While the key of a transcript is unknown, no key counts as new.
func TestUnreadableHeader(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte("\x00\x01 garbage\n"), 0o600) },
		"no header": func(path string) error {
			return os.WriteFile(path, append(note("x").Data, '\n'), 0o600)
		},
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":   func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		for _, way := range []string{"delete", "move away"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				dir, ctx := t.TempDir(), t.Context()
				d := open(t, dir, nil)
				create(t, d, "good", "k")
				require.NoError(t, d.Close())
				path := filepath.Join(dir, "agents/main/sessions/bad.jsonl")
				require.NoError(t, place(path))

				d = open(t, dir, nil)
				if row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("new", "k")); err != nil || row.ID != "good" {
					t.Errorf("Load of a key that has a session = %+v, %v", row, err)
				}
				_, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "new key"}, header("new", "new key"))
				if e, ok := errors.AsType[*filelog.Error](err); !ok || e.Path != path || !strings.Contains(e.Fix, "delete session bad") {
					t.Errorf("Load of a new key: %v", err)
				}
				t.Log(err)
				create(t, d, "explicit", "another key")
				readable := name == "no header" // but its key is unknown
				if rows, err := d.List(ctx, "main", driver.Position{}, 0); err != nil || len(rows) != 2 && !readable {
					t.Errorf("List = %v, %v", rows, err)
				}
				bad := driver.Ref{Agent: "main", ID: "bad"}
				_, err = d.Get(ctx, bad)
				if e, ok := errors.AsType[*filelog.Error](err); !readable && (!ok || e.Path != path) || readable && err != nil {
					t.Errorf("Get: %v", err)
				}
				require.NoError(t, d.Close())
				d = open(t, dir, nil)
				if _, err = d.Load(ctx, driver.KeyRef{Agent: "main", Key: "new key"}, header("new", "new key")); err == nil {
					t.Error("Load of a new key after opening the store again: no error")
				}
				if way == "delete" {
					require.NoError(t, d.Delete(ctx, driver.Anywhere, bad))
				} else {
					require.NoError(t, os.Rename(path, path+".away"))
				}
				row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "new key"}, header("new", "new key"))
				if err != nil || row.ID != "new" {
					t.Errorf("Load afterwards = %+v, %v", row, err)
				}
			})
		}
	}
}

// A header that does not match its checksum still counts: after the loss of the
// index the session keeps its key and row, and can be archived.
func TestHeaderWithAWrongChecksum(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	require.NoError(t, d.Close())
	text, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	first, rest, _ := strings.Cut(string(text), "\n")
	text = []byte(strings.TrimSuffix(first, "}") + `,"crc":"00000000"}` + "\n" + rest)
	require.NoError(t, os.WriteFile(d.Path(ref), text, 0o600))
	loseIndex(t, dir)

	d = open(t, dir, nil)
	rows := list(t, d)
	require.Len(t, rows, 1)
	require.Equal(t, "k", rows[0].Key)
	require.Equal(t, int64(len(text)), rows[0].Size)
	require.Equal(t, "a", load(t, d, "k", "new"))
	require.NoError(t, d.Archive(ctx, ref, driver.Anywhere))
	require.Equal(t, []string{"a", "1"}, scanned(t, d, ref))
}

// A copy of a transcript under another name does not hide the original.
func TestCopiedTranscript(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions/a.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "b.jsonl"), data, 0o600))
	d = open(t, dir, nil)
	require.Equal(t, "a", load(t, d, "k", "new"))
}

// A text that cannot be a name leaves no file.
func TestBadIDCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("../x", "k"))
	require.Error(t, err, "Create: no error")
	_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("", "k"))
	require.Error(t, err, "Load: no error")
	if entries, err := os.ReadDir(filepath.Join(dir, "agents")); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Describe can read a transcript from both ends and from any place.
func TestDescribeScansBothWays(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	at := add(t, d, ref, "1", "2").Start
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	seen := func(scan filedriver.Scan, from driver.Cursor, dir driver.Direction) (ids []string) {
		for rec, err := range scan(from, dir) {
			require.NoError(t, err)
			ids = append(ids, rec.Entry.ID)
		}
		return ids
	}
	asked := 0
	d = open(t, dir, &filedriver.Options{ReadOnly: true, Describe: func(row driver.Row, scan filedriver.Scan) (driver.Row, error) {
		asked++
		require.Equal(t, driver.Row{ID: "a", Agent: "main"}, row)
		require.Equal(t, []string{"a", "1", "2"}, seen(scan, 0, driver.Forward))
		require.Equal(t, []string{"2"}, seen(scan, at, driver.Forward))
		require.Equal(t, []string{"2", "1", "a"}, seen(scan, 0, driver.Backward))
		require.Equal(t, []string{"2"}, seen(scan, at, driver.Backward))
		return row, nil
	}})
	require.Len(t, list(t, d), 1)
	require.Equal(t, 1, asked)
}

// Files that no session can have are not transcripts.
func TestFilesThatAreNoTranscripts(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	folder := filepath.Dir(d.Path(create(t, d, "a", "k").Ref()))
	require.NoError(t, d.Close())
	for _, name := range []string{"Notes.jsonl", "%2fx.jsonl", "%2.jsonl", ".jsonl", "a.txt", strings.Repeat("x", 125) + ".jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("notes"), 0o600))
	}
	d = open(t, dir, nil)
	require.Equal(t, "b", load(t, d, "new key", "b"))
	require.Equal(t, []string{"a", "b"}, ids(list(t, d)))
}

// A transcript whose header is destroyed keeps its row, and so its key.
func TestKnownRowOutlivesItsHeader(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Title = "kept"
	require.NoError(t, d.Put(t.Context(), row))
	require.NoError(t, os.WriteFile(d.Path(row.Ref()), []byte("garbage\n"), 0o600))
	for range 2 {
		rows := list(t, d)
		require.Len(t, rows, 1)
		require.Equal(t, "kept", rows[0].Title)
		require.Equal(t, "a", load(t, d, "k", "b"))
	}
}

// A row cannot be put for a transcript with an unknown key.
func TestPutWithoutAHeader(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	bad := driver.Ref{Agent: "main", ID: "bad"}
	require.NoError(t, os.WriteFile(d.Path(bad), nil, 0o600))
	err := d.Put(t.Context(), driver.Row{Agent: "main", ID: "bad", Key: "k"})
	require.ErrorContains(t, err, "restore it")
	require.Len(t, list(t, d), 1)
	require.NoError(t, d.Close())
	require.NotContains(t, indexText(t, dir), `"row":{"id":"bad"`)
	require.Contains(t, indexText(t, dir), `{"unknown":"bad"}`)
}

// The same if even the ID of a transcript is unknown, because its name is
// hashed.
func TestUnreadableHeaderOfAHashedName(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	bad := driver.Ref{Agent: "main", ID: strings.Repeat("B", 100)}
	create(t, d, "a", "k")
	require.NoError(t, os.WriteFile(d.Path(bad), nil, 0o600))
	for range 3 {
		_, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "new key"}, header("b", "new key"))
		require.ErrorContains(t, err, d.Path(bad))
		require.NotContains(t, err.Error(), "delete session")
		require.Len(t, list(t, d), 1)
		create(t, d, fmt.Sprint("s", len(indexText(t, dir))), "k") // tells the others
		require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: ids(list(t, d))[1]}))
		require.NoError(t, d.Close())
		d = open(t, dir, nil)
	}
	require.Equal(t, 1, strings.Count(indexText(t, dir), filepath.Base(d.Path(bad))))
	require.NoError(t, os.Remove(d.Path(bad)))
	require.Equal(t, "b", load(t, d, "new key", "b"))
}

// Every process learns from the index that a transcript has no header, until it
// is restored.
func TestRestoredHeader(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	text, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile(d.Path(ref), nil, 0o600))
	loseIndex(t, dir)
	d = open(t, dir, nil)
	create(t, d, "b", "other key")
	require.NoError(t, d.Close())
	require.NoError(t, os.Chtimes(filepath.Dir(d.Path(ref)), time.Time{}, time.Unix(1, 0)))

	d = open(t, dir, nil)
	_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("c", "k"))
	require.ErrorContains(t, err, d.Path(ref))
	require.NoError(t, os.WriteFile(d.Path(ref), text, 0o600))
	require.Equal(t, "a", load(t, d, "k", "c"))
	require.Equal(t, "c", load(t, d, "third key", "c"))
}
