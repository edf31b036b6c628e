package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

const deadWriter = 12345678 // whose byte nobody has locked

// indexText is the index of an agent.
func indexText(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	return string(data)
}

// described returns options whose Describe counts the records of each session,
// and of which sessions it was asked.
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
		res, err = d.Append(t.Context(), ref, []driver.Line{note(id)}, driver.Cond{})
		require.NoError(t, err)
	}
	return res
}

func list(t *testing.T, d driver.Driver) []driver.Row {
	t.Helper()
	rows, err := d.List(t.Context(), "main", driver.Place{}, 0)
	require.NoError(t, err)
	return rows
}

// Lists look at the transcripts of busy sessions alone, and read of these what
// the last row lacks. A row ends that.
func TestBusySessionsAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	var asked, askedOther []string
	d, other := open(t, dir, described(&asked)), open(t, dir, described(&askedOther))
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "other key")
	before := indexText(t, dir)
	end := add(t, d, ref, "1", "2", "3").End
	require.Equal(t, before+`{"by":`, indexText(t, dir)[:len(before)+6], "one busy line follows")
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
	require.NoError(t, d.Close())
	require.NoError(t, other.Close())
}

// A row that says less than the transcript holds does not end the busy line.
func TestPutOfAnOldRow(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	d := open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	old, err := d.Get(t.Context(), ref)
	require.NoError(t, err)
	old.Size, old.Messages = int64(add(t, d, ref, "2").End), 2
	add(t, d, ref, "3")
	require.NoError(t, d.Put(t.Context(), old))
	other := open(t, dir, described(&asked))
	require.Equal(t, 3, list(t, other)[0].Messages)
	require.Equal(t, []string{"a from 2"}, asked)

	// A process that has appended nothing is not busy, whatever its row covers.
	before := indexText(t, dir)
	require.NoError(t, other.Put(t.Context(), old))
	require.NotContains(t, indexText(t, dir)[len(before):], `"busy"`)

	// It is not, either, if the index has not more than its row.
	behind := t.TempDir()
	third := open(t, behind, nil)
	row := create(t, third, "a", "k")
	appendRaw(t, third.Path(row.Ref()), note("1").Data)
	before = indexText(t, behind)
	require.NoError(t, third.Put(t.Context(), row))
	require.NotContains(t, indexText(t, behind)[len(before):], `"busy"`)
	require.NoError(t, third.Close())

	// A row of less than another process has put does not replace that.
	fresh := list(t, other)[0]
	require.NoError(t, other.Put(t.Context(), fresh))
	before = indexText(t, dir)
	require.NoError(t, d.Put(t.Context(), old))
	require.Contains(t, indexText(t, dir)[len(before):], `"messageCount":3`)
	require.Equal(t, 3, list(t, d)[0].Messages)
	require.NoError(t, d.Close())
	require.NoError(t, other.Close())
}

// The next writer puts the rows of the sessions that a killed one was busy with.
func TestDeadWriter(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a"}`, deadWriter))
	appendRaw(t, d.Path(ref), note("1").Data)

	var asked []string
	d = open(t, dir, described(&asked))
	require.Equal(t, 1, list(t, d)[0].Messages)
	require.Equal(t, []string{"a from 0"}, asked)
	create(t, d, "b", "other key")
	require.Contains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter))
	require.NoError(t, d.Close())

	asked = nil
	d = open(t, dir, described(&asked))
	require.Len(t, list(t, d), 2)
	require.Empty(t, asked)
	require.NoError(t, d.Close())
}

func appendRaw(t *testing.T, path string, line []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(append(line, '\n'))
	require.NoError(t, errors.Join(err, f.Close()))
}

// After another boot, and when the index is damaged or gone, every transcript
// is compared with its row.
func TestComparedAfterABoot(t *testing.T) {
	for name, change := range map[string]func(path, text string) error{
		"another boot": func(path, text string) error {
			_, rest, _ := strings.Cut(text, "\n")
			return os.WriteFile(path, []byte(`{"index":1,"boot":"another","agent":"main"}`+"\n"+rest), 0o600)
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
			appendRaw(t, d.Path(ref), note("1").Data) // of which no line of the index speaks
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
			require.NoError(t, d.Close())
		})
	}
}

// An index that an append had to make says nothing of the other transcripts, and
// is not trusted.
func TestIndexMadeByAnAppend(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	d = open(t, dir, nil)
	add(t, d, ref, "1")
	require.Contains(t, indexText(t, dir), `{"index":1,"agent":"main"}`)
	require.NoError(t, d.Close())
	require.NoError(t, os.Chtimes(filepath.Dir(d.Path(ref)), time.Time{}, time.Unix(1, 0)))
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
	require.NoError(t, d.Close())
}

// An index of a newer version is neither read nor replaced.
func TestNewerIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	text := strings.Replace(indexText(t, dir), `{"index":1`, `{"index":2`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))
	d = open(t, dir, nil)
	_, err := d.List(t.Context(), "main", driver.Place{}, 0)
	require.ErrorContains(t, err, "use a newer program")
	_, _, err = d.LoadOrCreate(t.Context(), "main", "k", header("b", "k"))
	require.ErrorContains(t, err, "use a newer program")
	require.Equal(t, text, indexText(t, dir))
	require.NoError(t, d.Close())
}

// A newer program may put its index in place while this one has the store open.
func TestIndexBecomesNewer(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	text := strings.Replace(indexText(t, dir), `{"index":1`, `{"index":2`, 1)
	loseIndex(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))
	_, err := d.List(t.Context(), "main", driver.Place{}, 0)
	require.ErrorContains(t, err, "use a newer program")
	_, err = d.Current(t.Context(), "main", "k")
	require.ErrorContains(t, err, "use a newer program")
	_, err = d.Get(t.Context(), row.Ref())
	require.ErrorContains(t, err, "use a newer program")
	require.ErrorContains(t, d.Put(t.Context(), row), "use a newer program")
	_, err = d.Append(t.Context(), row.Ref(), []driver.Line{note("1")}, driver.Cond{})
	require.ErrorContains(t, err, "use a newer program")
	require.Equal(t, text, indexText(t, dir))
	require.NoError(t, d.Close())
}

// A line of the index may be longer than what is read of it at a time.
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
	require.NoError(t, d.Delete(t.Context(), driver.Ref{Agent: "main", ID: "b"}))
	require.Contains(t, indexText(t, dir), row.Title)
	require.Less(t, len(indexText(t, dir)), len(before))
	require.NoError(t, d.Close())
}

// A blank line of the index says nothing.
func TestBlankIndexLine(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	appendRaw(t, d.Path(ref), note("1").Data) // of which no line of the index speaks
	addLine(t, dir, "")
	d = open(t, dir, nil)
	before := indexText(t, dir)
	row, err := d.Current(t.Context(), "main", "k")
	require.NoError(t, err)
	require.NoError(t, d.Put(t.Context(), row))
	require.Equal(t, before, indexText(t, dir)[:len(before)], "it is not rewritten")
	require.NoError(t, d.Close())
}

// Without Describe a row has the times of the header; with it those it gives.
func TestTimesOfARow(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, err := d.Create(t.Context(), "main", "k", func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "a", Time: made, Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen, Created: made.Add(-time.Hour)}}
		return driver.Row{ID: "a"}, driver.Line{ID: "a", Type: e.Type(), Data: e.Line()}
	})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	for _, given := range []time.Time{{}, made.Add(time.Minute)} {
		d = open(t, dir, &filedriver.Options{ReadOnly: true, Describe: func(row driver.Row, _ filedriver.Scan) (driver.Row, error) {
			row.UpdatedAt, row.CreatedAt = given, given
			return row, nil
		}})
		row := list(t, d)[0]
		if given.IsZero() {
			require.True(t, row.UpdatedAt.Equal(made), row.UpdatedAt)
			require.True(t, row.CreatedAt.Equal(made.Add(-time.Hour)), row.CreatedAt)
		} else {
			require.True(t, row.UpdatedAt.Equal(given), row.UpdatedAt)
			require.True(t, row.CreatedAt.Equal(given), row.CreatedAt)
		}
		require.NoError(t, d.Close())
	}
}

// A line without its '\n' is what a killed writer left, and stays apart from
// the next one.
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
	require.NoError(t, d.Close())
}

// A place where the index cannot be is named.
func TestIndexThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.Symlink("sessions.lock", path))
	d = open(t, dir, nil)
	_, err := d.List(t.Context(), "main", driver.Place{}, 0)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "move it away")
	require.NoError(t, os.Remove(path))
	require.Len(t, list(t, d), 1)
	require.NoError(t, d.Close())
}

// Times that JSON has no form for are left out of a row.
func TestTimesOutOfRange(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Title, row.LastUserAt, row.CreatedAt = "put", time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, d.Put(t.Context(), row))
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	got := list(t, d)[0]
	require.Equal(t, "put", got.Title)
	require.True(t, got.LastUserAt.IsZero())
	require.True(t, got.CreatedAt.IsZero())
	require.NoError(t, d.Close())
}

// A session that another process is just making is found by its key before it
// has a row.
func TestSessionInTheMaking(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	require.NoError(t, d.Close())
	text, err := os.ReadFile(d.Path(a.Ref()))
	require.NoError(t, err)
	made := d.Path(driver.Ref{Agent: "main", ID: "b"})
	require.NoError(t, os.WriteFile(made, []byte(strings.NewReplacer(`"id":"a"`, `"id":"b"`, `"gen":1`, `"gen":2`).Replace(string(text))), 0o600))
	require.NoError(t, os.Chtimes(filepath.Dir(made), time.Time{}, time.Unix(1, 0)))
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"b"}`, deadWriter))
	d = open(t, dir, &filedriver.Options{ReadOnly: true})
	row, err := d.Current(t.Context(), "main", "k")
	require.NoError(t, err)
	require.Equal(t, "b", row.ID)
	require.NoError(t, d.Close())
}

// A row does not end the busy line of a writer whose bytes are not yet on stable
// storage: others must suspect them if the writer is killed.
func TestRowOfUnsyncedLines(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncInterval(time.Hour)})
	row := create(t, d, "a", "k")
	row.Size = int64(add(t, d, row.Ref(), "1").End)
	before := indexText(t, dir)
	require.NoError(t, d.Put(t.Context(), row))
	require.Contains(t, indexText(t, dir)[len(before):], `"busy":"a","from":`)
	require.NoError(t, d.Flush(t.Context(), row.Ref()))
	before = indexText(t, dir)
	require.NoError(t, d.Put(t.Context(), row))
	require.NotContains(t, indexText(t, dir)[len(before):], `"busy"`)
	add(t, d, row.Ref(), "2")
	require.Contains(t, indexText(t, dir)[len(before):], `"busy"`)
	require.NoError(t, d.Close())
}

// The index is rewritten when it has doubled, and keeps what counts.
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
		cur, err := d.Current(t.Context(), "main", "k")
		require.NoError(t, err)
		require.Equal(t, "b", cur.ID)
	}
	require.Contains(t, indexText(t, dir), `"busy":"b"`)
	require.NoError(t, d.Close())
	require.NoError(t, other.Close())
}

// An index that cannot be rewritten goes on growing, and a deletion that needs it
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
	require.Error(t, d.Delete(t.Context(), gone))
	require.Contains(t, indexText(t, dir), `{"delete":"b"}`)
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, d.Put(t.Context(), row))
	require.NotContains(t, indexText(t, dir), `"b"`)
	rows := list(t, d)
	require.Equal(t, []string{"a"}, ids(rows))
	require.Equal(t, row.Title, rows[0].Title)
	require.NoError(t, d.Close())
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

// A row that was damaged on the disk is made again from its transcript.
func TestDamagedRowIsRewritten(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	create(t, d, "b", "other key")
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	text := strings.Replace(indexText(t, dir), `"messageCount":0`, `"messageCount":!`, 1)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	d = open(t, dir, nil)
	for range 3 {
		require.Len(t, list(t, d), 2)
	}
	require.NoError(t, d.Delete(t.Context(), driver.Ref{Agent: "main", ID: "b"})) // rewrites the index
	require.Len(t, list(t, d), 1)
	require.NoError(t, d.Close())
	require.NotContains(t, indexText(t, dir), "!")
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 1)
	require.NoError(t, d.Close())
}

// Transcripts that somebody puts into the folder are listed, and those that
// somebody takes away are not.
func TestFilesByHand(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "k")
	data, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	put := filepath.Join(filepath.Dir(d.Path(ref)), "c.jsonl")
	require.NoError(t, os.WriteFile(put, []byte(strings.Replace(string(data), `"id":"a"`, `"id":"c"`, 1)), 0o600))
	ahead := time.Now().Add(time.Hour) // clocks of file systems count in steps
	require.NoError(t, os.Chtimes(filepath.Dir(put), ahead, ahead))
	require.Len(t, list(t, d), 3)
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
	_, err = d.Get(t.Context(), ref)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.Close())
}

// A transcript that was removed is not listed, though its folder looks untouched.
func TestFileRemovedByHand(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	require.NoError(t, os.Chtimes(filepath.Dir(d.Path(ref)), time.Time{}, time.Unix(1, 0)))
	d = open(t, dir, nil)
	require.Equal(t, []string{"b"}, ids(list(t, d)))
	require.NoError(t, d.Close())
}

// The next writer adds the row of a transcript that somebody put into the folder,
// so that nobody has to read it again.
func TestRowOfAFileByHand(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	d := open(t, dir, described(&asked))
	ref := create(t, d, "a", "k").Ref()
	data, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	put := filepath.Join(filepath.Dir(d.Path(ref)), "c.jsonl")
	require.NoError(t, os.WriteFile(put, []byte(strings.Replace(string(data), `"id":"a"`, `"id":"c"`, 1)), 0o600))
	ahead := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Dir(put), ahead, ahead))
	require.Len(t, list(t, d), 2)
	require.Equal(t, []string{"c from 0"}, asked)
	before := indexText(t, dir)
	create(t, d, "b", "other key")
	require.Contains(t, indexText(t, dir)[len(before):], `"row":{"id":"c"`)
	require.NoError(t, d.Close())
	require.NoError(t, os.Chtimes(filepath.Dir(put), ahead, time.Unix(1, 0)))
	asked = nil
	d = open(t, dir, described(&asked))
	require.Len(t, list(t, d), 3)
	require.Empty(t, asked)
	require.NoError(t, d.Close())
}

// The caller owns the row that a lookup by key returns. Its gen is the highest.
func TestCurrentReturnsACopy(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Labels = []string{"one"}
	require.NoError(t, d.Put(t.Context(), row))
	for range 3 {
		got, err := d.Current(t.Context(), "main", "k")
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, got.Labels)
		got.Labels[0] = "changed"
		got, err = d.Get(t.Context(), row.Ref())
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, got.Labels)
		got.Labels[0] = "changed"
	}
	e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 9}} // which another process is about to put in a row
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a"}`, deadWriter))
	appendRaw(t, d.Path(row.Ref()), e.Line())
	got, err := d.Current(t.Context(), "main", "k")
	require.NoError(t, err)
	require.EqualValues(t, 9, got.Gen)
	require.NoError(t, d.Close())
}

// A folder with another program's index is refused and stays as it is.
func TestForeignFolders(t *testing.T) {
	for _, name := range []string{"sessions.json", "sessions/sessions.json", "agents/main/sessions.json", "agents/main/sessions/sessions.json"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(`{"agent:main:main":{"sessionId":"x"}}`), 0o600))
		_, err := filedriver.Open(dir, nil)
		require.ErrorIs(t, err, filedriver.ErrForeign)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "import")
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}

// The index files of earlier builds are removed: they hold words of sessions
// that are deleted from now on.
func TestOldIndexIsRemoved(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	agent := filepath.Join(dir, "agents/main")
	require.NoError(t, os.WriteFile(filepath.Join(agent, "sessions.json"), []byte(`{"version":1,"generation":3,"sessions":{`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(agent, "sessions.journal"), []byte(`{"generation":3}`+"\n"), 0o600))
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 1)
	require.NoError(t, d.Close())
	for _, name := range []string{"sessions.json", "sessions.journal"} {
		_, err := os.Lstat(filepath.Join(agent, name))
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
}

// Without an index, a store that is only read looks at each transcript once.
func TestReadOnlyWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	var asked []string
	opts := described(&asked)
	opts.ReadOnly = true
	d = open(t, dir, opts)
	for range 3 {
		require.Len(t, list(t, d), 1)
	}
	require.Equal(t, []string{"a from 0"}, asked)
	require.NoError(t, d.Close())
}

// A session that was just made by a process which was killed before it wrote the
// row gets one from the next writer, though that has looked after dead ones before.
func TestRowOfASessionInTheMaking(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	text, err := os.ReadFile(d.Path(a.Ref()))
	require.NoError(t, err)
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"b"}`, deadWriter))
	made := d.Path(driver.Ref{Agent: "main", ID: "b"})
	require.NoError(t, os.WriteFile(made, []byte(strings.Replace(string(text), `"id":"a"`, `"id":"b"`, 1)), 0o600))
	require.NoError(t, os.Chtimes(filepath.Dir(made), time.Time{}, time.Unix(1, 0)))
	require.NoError(t, d.Put(t.Context(), a))
	require.Contains(t, indexText(t, dir), `"row":{"id":"b"`)
	require.NoError(t, d.Close())
}

// A wait for the lock of the index is observed, and names no session.
func TestWaitForTheIndex(t *testing.T) {
	dir := t.TempDir()
	var waits []filelog.Wait
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever, OnWait: func(_ context.Context, ref driver.Ref, w filelog.Wait) {
		require.Equal(t, driver.Ref{Agent: "main"}, ref)
		waits = append(waits, w)
	}})
	create(t, d, "a", "k")
	waits = nil
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	lock, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, lock.Lock(t.Context(), 0))
	_, err = d.Create(hang(t, 2*filelog.LongWait), "main", "k", header("b", "k"))
	require.ErrorIs(t, err, driver.ErrBusy)
	require.Len(t, waits, 1)
	require.Equal(t, filelog.AppendLock, waits[0].Lock)
	require.ErrorIs(t, waits[0].Err, filelog.ErrBusy)
	require.NoError(t, errors.Join(lock.Close(), root.Close(), d.Close()))
}

// A process that goes on being busy behind its row says so once.
func TestStillBusyIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Size = int64(add(t, d, row.Ref(), "1").End)
	add(t, d, row.Ref(), "2")
	require.NoError(t, d.Put(t.Context(), row))
	before := indexText(t, dir)
	add(t, d, row.Ref(), "3")
	require.Equal(t, before, indexText(t, dir))
	require.NoError(t, d.Close())
}

// A session whose transcript cannot be understood any more keeps the row it had.
func TestRowThatCannotBeMadeAnew(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Title = "kept"
	require.NoError(t, d.Put(t.Context(), row))
	add(t, d, row.Ref(), "1")
	other := open(t, dir, &filedriver.Options{ReadOnly: true, Describe: func(row driver.Row, _ filedriver.Scan) (driver.Row, error) {
		return driver.Row{Title: "half"}, errors.New("not understood")
	}})
	require.Equal(t, "kept", list(t, other)[0].Title)
	require.NoError(t, other.Close())
	require.NoError(t, d.Close())
}

// Files with names that this package does not give are no sessions.
func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	for _, name := range []string{"UPPER.jsonl", "a b.jsonl", ".jsonl", "a.jsonl.bak"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(d.Path(ref)), name), []byte("words\n"), 0o600))
	}
	loseIndex(t, dir)
	d = open(t, dir, nil)
	require.Equal(t, []string{"a"}, ids(list(t, d)))
	_, created, err := d.LoadOrCreate(t.Context(), "main", "other key", header("b", "other key"))
	require.NoError(t, err)
	require.True(t, created)
	require.NoError(t, d.Close())
}
