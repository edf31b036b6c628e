package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

func newSession(id string) func(int64) (driver.Row, driver.Line) {
	return func(int64) (driver.Row, driver.Line) {
		return driver.Row{ID: id}, driver.Line{ID: id, Data: []byte(`{"type":"session","id":"` + id + `","v":1,"key":"k"}`)}
	}
}

// newSessionOfGen is newSession with the gen in the header, from which a row is made again.
func newSessionOfGen(id string) func(int64) (driver.Row, driver.Line) {
	return func(gen int64) (driver.Row, driver.Line) {
		row, line := newSession(id)(gen)
		line.Data = fmt.Appendf(nil, `%s,"gen":%d}`, line.Data[:len(line.Data)-1], gen)
		return row, line
	}
}

func openDir(t *testing.T, dir string) *filedriver.Driver {
	t.Helper()
	d, err := filedriver.Open(dir, &filedriver.Options{Sync: filelog.SyncNever})
	require.NoError(t, err)
	return d
}

// Stores that are opened, written and closed at the same time merge the index
// concurrently, without an error.
func TestMergesOfOthers(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, newSession("a"))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				d, err := filedriver.Open(dir, &filedriver.Options{Sync: filelog.SyncNever})
				if err != nil {
					t.Error(err)
					return
				}
				row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
				if err == nil {
					err = d.Put(t.Context(), row)
				}
				if err := errors.Join(err, d.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A transcript that is moved away while a store is open, or while none is, is gone from
// lists, but its key gets no other session in its place: Load reports an event. It is there
// again when the file is back, and another one can be made expressly or after a delete.
func TestMovedAway(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agents/main/sessions/a.jsonl")
	key := driver.KeyRef{Agent: "main", Key: "k"}
	events := 0
	open := func() *filedriver.Driver {
		d, err := filedriver.Open(dir, &filedriver.Options{Observe: func(_ context.Context, ref driver.Ref, e filelog.Event) {
			if m, ok := e.(filedriver.Missing); ok && ref.ID == "a" && errors.Is(m.Err, fs.ErrNotExist) {
				events++
			}
		}})
		require.NoError(t, err)
		return d
	}
	d := open()
	row, err := d.Create(t.Context(), key, newSession("a"))
	require.NoError(t, err)
	refused := func(d *filedriver.Driver) {
		t.Helper()
		before := events
		_, err = d.Load(t.Context(), key, newSession("b"))
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "a.jsonl")
		require.Equal(t, before+1, events)
		rows, err := d.List(t.Context(), "main", driver.Position{}, 0)
		require.NoError(t, err)
		require.Empty(t, rows)
	}
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = settle(t.Context(), d, row.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
	refused(d)
	for range 2 { // the index keeps the row, even if it is written anew
		require.NoError(t, d.Close())
		d = open()
		refused(d)
		other, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "other"}, newSession("c"))
		require.NoError(t, err)
		require.NoError(t, d.Delete(t.Context(), driver.Anywhere, other.Ref()))
	}
	require.NoError(t, os.Rename(path+".away", path))
	got, err := d.Load(t.Context(), key, newSession("b"))
	require.NoError(t, err)
	require.Equal(t, "a", got.ID)

	require.NoError(t, os.Remove(path))
	refused(d)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, row.Ref()))
	got, err = d.Load(t.Context(), key, newSession("b"))
	require.NoError(t, err)
	require.Equal(t, "b", got.ID)

	require.NoError(t, os.Remove(filepath.Join(dir, "agents/main/sessions/b.jsonl")))
	_, err = d.Create(t.Context(), key, newSession("d"))
	require.NoError(t, err)
	got, err = d.Load(t.Context(), key, newSession("e"))
	require.NoError(t, err)
	require.Equal(t, "d", got.ID)
	require.NoError(t, d.Close())
}

// If the newest session of a key is missing, Load returns the one before it and reports an
// event. A missing session that had a newer one is no obstacle to a new session.
func TestMovedAwayOfSeveral(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agents/main/sessions/")
	key := driver.KeyRef{Agent: "main", Key: "k"}
	var events []string
	d, err := filedriver.Open(dir, &filedriver.Options{Observe: func(_ context.Context, ref driver.Ref, e filelog.Event) {
		if _, ok := e.(filedriver.Missing); ok {
			events = append(events, ref.ID)
		}
	}})
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		_, err := d.Create(t.Context(), key, newSessionOfGen(id))
		require.NoError(t, err)
	}
	load := func(want string, told ...string) {
		t.Helper()
		events = nil
		got, err := d.Load(t.Context(), key, newSessionOfGen("c"))
		require.NoError(t, err)
		require.Equal(t, want, got.ID)
		require.Equal(t, told, events)
	}
	load("b")
	require.NoError(t, os.Rename(filepath.Join(path, "b.jsonl"), filepath.Join(path, "b.away")))
	load("a", "b")
	require.NoError(t, os.Rename(filepath.Join(path, "b.away"), filepath.Join(path, "b.jsonl")))
	load("b")
	require.NoError(t, os.Rename(filepath.Join(path, "a.jsonl"), filepath.Join(path, "a.away")))
	load("b")
	require.NoError(t, d.Archive(t.Context(), driver.Ref{Agent: "main", ID: "b"}, driver.Anywhere))
	load("c")
	require.NoError(t, d.Close())
}
