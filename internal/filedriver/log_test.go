package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const deadWriter = 12345678 // whose byte is not locked

// indexText is the index of an agent.
func indexText(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	return string(data)
}

// described returns options whose Describe counts the records of each session,
// and notes the sessions in asked.
func described(asked *[]string) *filedriver.Options {
	return &filedriver.Options{
		Sync: filelog.SyncNever,
		Describe: func(row driver.Row, scan filedriver.Scan) (driver.Row, error) {
			*asked = append(*asked, fmt.Sprintf("%s from %d", row.ID, row.Messages))
			for rec, err := range scan(driver.Cursor(row.Size), driver.Forward) {
				if err != nil {
					return row, err
				}
				row.Messages++
				row.LastID = rec.Entry.ID
				if c, ok := rec.Entry.Body.(transcript.Current); ok {
					row.Gen = max(row.Gen, c.Gen)
				}
			}
			return row, nil
		},
	}
}

func add(t *testing.T, d driver.Driver, ref driver.Ref, ids ...string) driver.Result {
	t.Helper()
	var res driver.Result
	for _, id := range ids {
		var err error
		res, err = d.Append(t.Context(), ref, []driver.Line{note(id)}, driver.Anywhere, nil)
		require.NoError(t, err)
	}
	return res
}

// load returns the ID of the current session of a key, which Load makes with an ID if that is
// not empty.
func load(t *testing.T, d driver.Driver, key, id string) string {
	t.Helper()
	first := header(id, key)
	if id == "" {
		first = nil
	}
	row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: key}, first)
	require.NoError(t, err)
	return row.ID
}

func list(t *testing.T, d driver.Driver) []driver.Row {
	t.Helper()
	rows, err := d.List(t.Context(), "main", driver.Position{}, 0)
	require.NoError(t, err)
	return rows
}

// Lists look at the sizes of the transcripts of their page, and read of those that
// have grown the part that the last row lacks.
func TestListLooksAtSizes(t *testing.T) {
	dir := t.TempDir()
	var asked, askedOther []string
	d, other := open(t, dir, described(&asked)), open(t, dir, described(&askedOther))
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "other key")
	before := indexText(t, dir)
	end := add(t, d, ref, "1", "2", "3").End
	require.Equal(t, before+`{"open":`, indexText(t, dir)[:len(before)+8], "the name of the writer follows")
	require.Equal(t, 1, strings.Count(indexText(t, dir)[len(before):], "\n"), "one line for three appends")

	require.Len(t, list(t, other), 2)
	require.Equal(t, []string{"a from 0"}, askedOther)
	list(t, other)
	require.Equal(t, []string{"a from 0"}, askedOther, "nothing has changed since")
	add(t, d, ref, "4")
	for _, row := range list(t, other) {
		if row.ID == "a" {
			require.Equal(t, 4, row.Messages)
		}
	}
	require.Equal(t, []string{"a from 0", "a from 3"}, askedOther)

	row, err := d.Get(t.Context(), ref)
	require.NoError(t, err)
	row.Size, row.Messages, row.Title = int64(add(t, d, ref, "5").End), 5, "put"
	require.Greater(t, row.Size, int64(end))
	require.NoError(t, d.Put(t.Context(), row))
	askedOther = nil
	for _, row := range list(t, other) {
		if row.ID == "a" {
			require.Equal(t, "put", row.Title)
		}
	}
	require.Empty(t, askedOther, "the row is trusted")
}

func appendRaw(t *testing.T, path string, line []byte) {
	t.Helper()
	appendText(t, path, append(line, '\n'))
}

func appendText(t *testing.T, path string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(text)
	require.NoError(t, errors.Join(err, f.Close()))
}

// After another boot, and when the index is damaged or gone, every transcript
// is compared with its row.
func TestComparedAfterABoot(t *testing.T) {
	for name, change := range map[string]func(path, text string) error{
		"another boot": func(path, text string) error {
			_, rest, _ := strings.Cut(text, "\n")
			return os.WriteFile(path, []byte(`{"index":3,"boot":"another","agent":"main"}`+"\n"+rest), 0o600)
		},
		"no head": func(path, text string) error {
			_, rest, _ := strings.Cut(text, "\n")
			return os.WriteFile(path, []byte(rest), 0o600)
		},
		"empty":   func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"NULs":    func(path, text string) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) },
		"damaged": func(path, text string) error { return os.WriteFile(path, []byte(text+"garbage\n"), 0o600) },
		"foreign": func(path, _ string) error { return os.WriteFile(path, []byte(`{"sessions":{}}`), 0o600) },
		"gone":    func(path, _ string) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, described(new([]string)))
			ref := create(t, d, "a", "k").Ref()
			require.NoError(t, d.Close())
			appendRaw(t, d.Path(ref), note("1").Data) // without a line in the index
			require.NoError(t, change(filepath.Join(dir, "agents/main/sessions.jsonl"), indexText(t, dir)))

			for _, opts := range []*filedriver.Options{{ReadOnly: true}, {}} {
				with := described(new([]string))
				with.ReadOnly = opts.ReadOnly
				d = open(t, dir, with)
				rows := list(t, d)
				require.Len(t, rows, 1)
				require.NotZero(t, rows[0].Messages)
				require.NoError(t, d.Close())
			}
			d = open(t, dir, described(new([]string)))
			create(t, d, "b", "other key") // writes the index anew
			require.NoError(t, d.Close())
			var asked []string
			d = open(t, dir, described(&asked))
			require.Len(t, list(t, d), 2)
			require.Empty(t, asked)
		})
	}
}

// An index made by an append lacks the other transcripts, and is not trusted.
func TestIndexMadeByAnAppend(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	d = open(t, dir, nil)
	add(t, d, ref, "1")
	require.Contains(t, indexText(t, dir), `{"index":3,"agent":"main"}`)
	require.NoError(t, d.Close())
	require.NoError(t, os.Chtimes(filepath.Dir(d.Path(ref)), time.Time{}, time.Unix(1, 0)))
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
}

// A transcript that was put back is listed, even if the next line of the index comes
// from an append to another session.
func TestTranscriptPutBack(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a, b := create(t, d, "a", "k").Ref(), create(t, d, "b", "k2").Ref()
	text, err := os.ReadFile(d.Path(a))
	require.NoError(t, err)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, a))
	require.NoError(t, d.Close())
	folder := filepath.Dir(d.Path(a))
	require.NoError(t, os.Chtimes(folder, time.Time{}, time.Unix(1, 0)))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "agents/main/sessions.jsonl"), time.Time{}, time.Unix(2, 0)))

	d = open(t, dir, nil)
	require.Len(t, list(t, d), 1)
	require.NoError(t, os.WriteFile(d.Path(a), text, 0o600))
	require.NoError(t, os.Chtimes(folder, time.Time{}, time.Unix(3, 0)))
	add(t, d, b, "1")
	require.Len(t, list(t, d), 2)
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
	require.Equal(t, "a", load(t, d, "k", "new"))
}

// An index of a newer version is neither read nor replaced.
func TestNewerIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	text := strings.Replace(indexText(t, dir), `{"index":3`, `{"index":4`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))
	d = open(t, dir, nil)
	_, err := d.List(t.Context(), "main", driver.Position{}, 0)
	require.ErrorContains(t, err, "use a newer program")
	_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("b", "k"))
	require.ErrorContains(t, err, "use a newer program")
	require.Equal(t, text, indexText(t, dir))
}

// The index of an earlier build, which lacks keys of owners, is made again.
func TestOlderIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := wordy(t, d, "a")
	key := driver.KeyRef{Agent: "main", Owner: words[1], Key: words[3]}
	require.NoError(t, d.Close())
	text := indexText(t, dir)
	old := strings.NewReplacer(`{"index":3`, `{"index":1`, `"owner":"`+words[1]+`","key":"`+words[3]+`"`, `"key":"`+words[3]+`"`).Replace(text)
	require.NotEqual(t, len(text), len(old))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(old), 0o600))
	for range 2 {
		d = open(t, dir, nil)
		row, err := d.Load(t.Context(), key, nil)
		require.NoError(t, err)
		require.Equal(t, ref.ID, row.ID)
		create(t, d, fmt.Sprint("b", len(list(t, d))), "k")
		require.NoError(t, d.Close())
		require.Contains(t, indexText(t, dir), `{"index":3`)
	}
}

// A newer program may put its index in place while the store is open.
func TestIndexBecomesNewer(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	text := strings.Replace(indexText(t, dir), `{"index":3`, `{"index":4`, 1)
	loseIndex(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))
	_, err := d.List(t.Context(), "main", driver.Position{}, 0)
	require.ErrorContains(t, err, "use a newer program")
	_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
	require.ErrorContains(t, err, "use a newer program")
	_, err = d.Get(t.Context(), row.Ref())
	require.ErrorContains(t, err, "use a newer program")
	require.ErrorContains(t, d.Put(t.Context(), row), "use a newer program")
	_, err = d.Append(t.Context(), row.Ref(), []driver.Line{note("1")}, driver.Anywhere, nil)
	require.ErrorContains(t, err, "use a newer program")
	require.Equal(t, text, indexText(t, dir))
}

// A line of the index may be longer than one read.
func TestLongIndexLine(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Title = strings.Repeat("0123456789", 250_000)
	require.NoError(t, d.Put(t.Context(), row))
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	before := indexText(t, dir)
	d = open(t, dir, nil)
	rows := list(t, d)
	require.Equal(t, []string{"a", "b"}, ids(rows))
	require.Equal(t, row.Title, rows[slices.IndexFunc(rows, func(r driver.Row) bool { return r.ID == "a" })].Title)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "b"}))
	require.Contains(t, indexText(t, dir), row.Title)
	require.Less(t, len(indexText(t, dir)), len(before))
}

// A blank line of the index means nothing.
func TestBlankIndexLine(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	appendRaw(t, d.Path(ref), note("1").Data) // without a line in the index
	addLine(t, dir, "")
	d = open(t, dir, nil)
	before := indexText(t, dir)
	row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
	require.NoError(t, err)
	require.NoError(t, d.Put(t.Context(), row))
	require.Equal(t, before, indexText(t, dir)[:len(before)], "it is not rewritten")
}

// A line without its '\n' was left by a killed writer, and stays apart from the
// next one.
func TestTornIndexLine(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	f, err := os.OpenFile(filepath.Join(dir, "agents/main/sessions.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"by":1,"row":{"id":"a","si`)
	require.NoError(t, errors.Join(err, f.Close()))
	require.Len(t, list(t, d), 1)
	create(t, d, "b", "k")
	require.Len(t, list(t, d), 2)
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
}

// The index is rewritten when most of it is useless, and keeps the rest.
func TestIndexIsRewritten(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	row := create(t, d, "a", "k")
	busy := create(t, d, "b", "k")
	add(t, other, busy.Ref(), "1")
	largest := 0
	for i := range 1000 {
		row.Title = fmt.Sprint(i, strings.Repeat(" title", 50))
		require.NoError(t, d.Put(t.Context(), row))
		largest = max(largest, len(indexText(t, dir)))
	}
	require.Less(t, largest, 200<<10)
	for _, d := range []*filedriver.Driver{d, other, open(t, dir, nil)} {
		got, err := d.Get(t.Context(), row.Ref())
		require.NoError(t, err)
		require.Equal(t, row.Title, got.Title)
		require.Len(t, list(t, d), 2)
		require.Equal(t, "b", load(t, d, "k", ""))
	}
	require.Equal(t, 1, strings.Count(indexText(t, dir), `{"open":`))
}

// An index that cannot be rewritten keeps growing, and a deletion that needs it
// fails and can be repeated.
func TestIndexThatCannotBeRewritten(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	row := create(t, d, "a", "k")
	gone := create(t, d, "b", "other key").Ref()
	inTheWay := filepath.Join(dir, "agents/main/sessions.jsonl.tmp-0123456789abcdef")
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	for !strings.Contains(log.String(), "the index could not be rewritten") {
		row.Title = fmt.Sprint(log.Len(), strings.Repeat(" title", 1000))
		require.NoError(t, d.Put(t.Context(), row))
		require.Less(t, len(indexText(t, dir)), 1<<20)
	}
	require.Error(t, d.Delete(t.Context(), driver.Anywhere, gone))
	require.Contains(t, indexText(t, dir), `{"delete":"b"}`)
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, d.Put(t.Context(), row))
	require.NotContains(t, indexText(t, dir), `"b"`)
	rows := list(t, d)
	require.Equal(t, []string{"a"}, ids(rows))
	require.Equal(t, row.Title, rows[0].Title)
}

// The index stays small when many processes each add a little to it.
func TestIndexOfManyProcesses(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	require.NoError(t, d.Close())
	for i := range 300 {
		d := open(t, dir, nil)
		row.Title = fmt.Sprint(i, strings.Repeat(" title", 200))
		require.NoError(t, d.Put(t.Context(), row))
		require.NoError(t, d.Close())
		require.Less(t, len(indexText(t, dir)), 80<<10)
	}
}

// A wait for the lock of the index is reported without a session.
func TestWaitForTheIndex(t *testing.T) {
	dir := t.TempDir()
	var waits []filelog.Wait
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever, Observe: func(_ context.Context, ref driver.Ref, e filelog.Event) {
		if w, ok := e.(filelog.Wait); ok {
			require.Equal(t, driver.Ref{Agent: "main"}, ref)
			waits = append(waits, w)
		}
	}})
	create(t, d, "a", "k")
	waits = nil
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	lock, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, lock.Lock(t.Context(), 0))
	// On a busy machine the time may be over before the wait begins.
	for wait := 2 * filelog.LongWait; len(waits) == 0 && wait < time.Minute; wait *= 2 {
		_, err = d.Create(hang(t, wait), driver.KeyRef{Agent: "main", Key: "k"}, header("b", "k"))
	}
	require.ErrorIs(t, err, driver.ErrBusy)
	require.Len(t, waits, 1)
	require.Equal(t, "append", waits[0].Lock)
	require.ErrorIs(t, waits[0].Err, filelog.ErrBusy)
	require.NoError(t, errors.Join(lock.Close(), root.Close(), d.Close()))
}
