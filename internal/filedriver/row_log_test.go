package filedriver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A list has the messages that the row of a session lacks. A row of fewer bytes does not
// replace one of more.
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

	fresh := list(t, other)[0]
	require.NoError(t, other.Put(t.Context(), fresh))
	before := indexText(t, dir)
	require.NoError(t, d.Put(t.Context(), old))
	require.Contains(t, indexText(t, dir)[len(before):], `"messageCount":3`)
	require.Equal(t, 3, list(t, d)[0].Messages)
}

// Without Describe a row takes its times from the header.
func TestTimesOfARow(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "a", Time: made, Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen, Created: made.Add(-time.Hour)}}
		return driver.Row{ID: "a"}, driver.Line{ID: "a", Data: e.Line()}
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

// A row leaves out times that JSON cannot hold.
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
}

// The caller owns the row that a lookup by key returns. Its gen is the highest.
func TestCurrentReturnsACopy(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Labels = []string{"one"}
	require.NoError(t, d.Put(t.Context(), row))
	for range 3 {
		got, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, got.Labels)
		got.Labels[0] = "changed"
		got, err = d.Get(t.Context(), row.Ref())
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, got.Labels)
		got.Labels[0] = "changed"
	}
	e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 9}} // another process will put it into a row
	addLine(t, dir, `{"change":"a"}`)
	appendRaw(t, d.Path(row.Ref()), e.Line())
	got, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 9, got.Gen)
}

// If a process is killed between making a session and writing its row, the next
// writer writes the row.
func TestRowOfASessionInTheMaking(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	text, err := os.ReadFile(d.Path(a.Ref()))
	require.NoError(t, err)
	addLine(t, dir, `{"change":"b"}`)
	made := d.Path(driver.Ref{Agent: "main", ID: "b"})
	require.NoError(t, os.WriteFile(made, []byte(strings.Replace(string(text), `"id":"a"`, `"id":"b"`, 1)), 0o600))
	require.NoError(t, os.Chtimes(filepath.Dir(made), time.Time{}, time.Unix(1, 0)))
	require.NoError(t, d.Put(t.Context(), a))
	require.Contains(t, indexText(t, dir), `"row":{"id":"b"`)
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
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "b"})) // rewrites the index
	require.Len(t, list(t, d), 1)
	require.NoError(t, d.Close())
	require.NotContains(t, indexText(t, dir), "!")
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 1)
}
