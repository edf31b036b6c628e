package filedriver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
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

// words are in all places that hold words of a session.
var words = []string{"xylophone", "owner-zebra", "label-quartz", "key-walrus", "title-jigsaw"}

// wordy makes a session whose transcript and row have words.
func wordy(t *testing.T, d *filedriver.Driver, id string) driver.Ref {
	t.Helper()
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Owner: words[1], Key: words[3]}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Body: transcript.Header{Version: transcript.Version, Owner: words[1], Key: words[3], Gen: gen}}
		return driver.Row{ID: id, Labels: words[2:3], Title: words[4]}, driver.Line{ID: id, Data: e.Line()}
	})
	require.NoError(t, err)
	e := transcript.Entry{ID: "said", Body: transcript.Custom{Name: "note", Data: fmt.Appendf(nil, "%q", words[0])}}
	res, err := d.Append(t.Context(), row.Ref(), []driver.Line{{ID: "said", Data: e.Line()}}, driver.Anywhere, nil)
	require.NoError(t, err)
	row.Size = int64(res.End)
	require.NoError(t, d.Put(t.Context(), row))
	return row.Ref()
}

// wordsIn returns the files below a folder that hold one of the words.
func wordsIn(t *testing.T, dir string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, w := range words {
			if bytes.Contains(data, []byte(w)) {
				files = append(files, path+": "+w)
			}
		}
		return err
	}))
	return files
}

// No word of a deleted session stays in the folder, and other sessions are
// unchanged.
func TestDeleteLeavesNoWord(t *testing.T) {
	for _, policy := range []filelog.SyncPolicy{filelog.SyncAlways, filelog.SyncNever} {
		dir := t.TempDir()
		d, other := open(t, dir, &filedriver.Options{Sync: policy}), open(t, dir, &filedriver.Options{Sync: policy})
		for i := range 50 {
			create(t, d, fmt.Sprint("s", i), "k")
		}
		ref := wordy(t, d, "gone")
		require.NotEmpty(t, wordsIn(t, dir))
		row, err := other.Get(t.Context(), ref)
		require.NoError(t, err)
		add(t, other, ref, "1") // another process is busy with it
		require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
		require.Empty(t, wordsIn(t, dir))

		require.ErrorIs(t, other.Put(t.Context(), row), fs.ErrNotExist)
		_, err = other.Append(t.Context(), ref, []driver.Line{note("2")}, driver.Anywhere, nil)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Len(t, list(t, other), 50)
		require.NoError(t, other.Close())
		require.NoError(t, d.Close())
		require.Empty(t, wordsIn(t, dir))
	}
}

// A process that was busy with a session deleted by another process writes no line
// about it again.
func TestDeletedByAnother(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	gone, next := create(t, d, "gone", "k").Ref(), create(t, d, "next", "k").Ref()
	stays := create(t, d, "stays", "k").Ref()
	add(t, other, gone, "1")
	add(t, other, stays, "1")
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, gone))
	require.NoError(t, other.Delete(t.Context(), driver.Anywhere, next)) // rewrites the index
	require.NotContains(t, indexText(t, dir), "gone")
	require.Equal(t, 1, strings.Count(indexText(t, dir), `{"open":`))
	require.NoError(t, errors.Join(d.Close(), other.Close()))
	require.NotContains(t, indexText(t, dir), "gone")
}

// The process that finishes a deletion of a killed one is another user of the session, and
// learns that it was made anew.
func TestMadeAnewAfterAFinishedDeletion(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	ref := create(t, d, "gone", "k").Ref()
	at := add(t, d, ref, "1").End
	create(t, other, "stays", "k2")
	addLine(t, dir, `{"delete":"gone"}`)
	create(t, d, "next", "k3") // finishes it
	require.NoFileExists(t, d.Path(ref))
	create(t, other, "gone", "another")
	add(t, other, ref, "2", "3")
	var err error
	for _, err = range d.Scan(t.Context(), ref, at, driver.Forward, nil) {
	}
	require.ErrorIs(t, err, driver.ErrReplaced)
}

// One call deletes several sessions of several agents; its error names the
// missing ones.
func TestDeleteSeveral(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	var refs []driver.Ref
	for i := range 4 {
		refs = append(refs, create(t, d, fmt.Sprint("s", i), "k").Ref())
	}
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "other", Key: "k"}, header("s0", "k"))
	require.NoError(t, err)
	missing := driver.Ref{Agent: "main", ID: "missing"}
	err = d.Delete(t.Context(), driver.Anywhere, refs[0], missing, row.Ref(), refs[2])
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "missing")
	require.Len(t, list(t, d), 2)
	rows, err := d.List(t.Context(), "other", driver.Position{}, 0)
	require.NoError(t, err)
	require.Empty(t, rows)
	require.NotContains(t, indexText(t, dir), "delete")
	info, err := os.Stat(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	require.Zero(t, info.Mode()&fs.ModeSticky)
}

// A session named twice is deleted once, with the same outcome for both.
func TestDeleteNamedTwice(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	a, b, c := create(t, d, "a", "k").Ref(), create(t, d, "b", "k").Ref(), create(t, d, "c", "k").Ref()
	end := add(t, d, b, "1").End
	require.ErrorIs(t, d.Delete(t.Context(), end, a, b, a, b), driver.ErrConflict)
	require.Equal(t, []string{"a", "c"}, ids(list(t, d)))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, a, c, a))
	require.Empty(t, list(t, d))
}

// Opening a store finishes what a kill inside Delete, a copy or a rewrite left.
func TestDeleteIsFinished(t *testing.T) {
	for name, left := range map[string]func(t *testing.T, d *filedriver.Driver, ref driver.Ref, agent string){
		"after the line": func(*testing.T, *filedriver.Driver, driver.Ref, string) {},
		"after the transcript was removed": func(t *testing.T, d *filedriver.Driver, ref driver.Ref, _ string) {
			require.NoError(t, os.Remove(d.Path(ref)))
		},
		"after a kill inside a copy": func(t *testing.T, d *filedriver.Driver, ref driver.Ref, _ string) {
			require.NoError(t, os.WriteFile(d.Path(ref)+".tmp-0123456789abcdef", []byte(words[0]), 0o600))
		},
		"after a kill inside a rewrite": func(t *testing.T, _ *filedriver.Driver, _ driver.Ref, agent string) {
			require.NoError(t, os.WriteFile(filepath.Join(agent, "sessions.jsonl.tmp-0123456789abcdef"), []byte(words[1]), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			create(t, d, "stays", "k")
			ref := wordy(t, d, "gone")
			require.NoError(t, d.Close())
			agent := filepath.Join(dir, "agents/main")
			require.NoError(t, os.Chmod(filepath.Join(agent, "sessions.jsonl"), 0o600|fs.ModeSticky))
			addLine(t, dir, `{"delete":"gone"}`)
			left(t, d, ref, agent)

			ro := open(t, dir, &filedriver.Options{ReadOnly: true})
			require.Len(t, list(t, ro), 1, "it is deleted")
			_, err := ro.Get(t.Context(), ref)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoError(t, ro.Close())

			d = open(t, dir, nil)
			require.Empty(t, wordsIn(t, dir), "opening alone removes the words")
			require.Len(t, list(t, d), 1)
			create(t, d, "gone", "k") // the ID is free
		})
	}
}

// A deletion whose index could not be marked is finished by the first call on the agent.
func TestDeletionWithoutAMark(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	wordy(t, d, "gone")
	require.NoError(t, d.Close())
	addLine(t, dir, `{"delete":"gone"}`)
	d = open(t, dir, nil)
	require.Empty(t, list(t, d))
	require.Empty(t, wordsIn(t, dir))
}

// A deletion of which only a part of the line was written has not begun.
func TestTornDelete(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := wordy(t, d, "stays")
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(indexText(t, dir)+`{"delete":"stays"`), 0o600|fs.ModeSticky))
	for range 2 {
		d = open(t, dir, nil)
		require.Len(t, list(t, d), 1)
		add(t, d, ref, "1")
		require.NoError(t, d.Close())
	}
}

// wordless replaces the lines of a session by a header with another key.
func wordless(records iter.Seq2[transcript.Record, error], write func([]byte) error) error {
	for rec, err := range records {
		if err != nil {
			return err
		}
		h, ok := rec.Entry.Body.(transcript.Header)
		if !ok {
			continue
		}
		h.Owner, h.Key, h.Rev = "", "k", h.Rev+1
		if err := write(transcript.Entry{ID: rec.Entry.ID, Body: h}.Line()); err != nil {
			return err
		}
	}
	return nil
}

// No word of replaced lines stays in the folder or the index, even after a kill
// right after the replacement.
func TestRewriteLeavesNoWord(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := wordy(t, d, "a")
	old := indexText(t, dir)
	require.NoError(t, d.Rewrite(t.Context(), ref, wordless))
	require.Empty(t, wordsIn(t, dir))
	require.NoError(t, d.Close())

	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(old+`{"erase":"a"}`+"\n"), 0o600))
	inTheWay := path + ".tmp-0123456789abcdef"
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	d = open(t, dir, nil)
	require.NoError(t, d.Put(t.Context(), driver.Row{ID: "a", Agent: "main"}))
	require.NotEmpty(t, wordsIn(t, dir))
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, os.Chmod(path, 0o600|os.ModeSticky))
	d = open(t, dir, nil)
	require.Empty(t, wordsIn(t, dir))
	require.Equal(t, "k", list(t, d)[0].Key)
}

// A transcript can be deleted even if the index cannot be rewritten, for example on a
// full disk after a reboot: that may make room.
func TestDeleteBesideAnIndexOfAnotherBoot(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := wordy(t, d, "a")
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	first, rest, _ := strings.Cut(indexText(t, dir), "\n")
	require.Contains(t, first, `"boot":"`)
	first = strings.Replace(first, `"boot":"`, `"boot":"another`, 1)
	require.NoError(t, os.WriteFile(path, []byte(first+"\n"+rest), 0o600))
	inTheWay := path + ".tmp-0123456789abcdef"
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	d = open(t, dir, nil)
	require.Error(t, d.Delete(t.Context(), driver.Anywhere, ref), "its row is still there")
	require.NoFileExists(t, d.Path(ref))
	require.NoError(t, os.Remove(inTheWay))
	create(t, d, "b", "k2")
	require.Empty(t, wordsIn(t, dir))
}

// An index that is due to be rewritten when an erase begins keeps the erase line and
// the boot. A process that lists the session before its lines are replaced adds no row
// of the old lines later.
func TestEraseInALargeIndex(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	ref := wordy(t, d, "a")
	create(t, d, "b", "k2")
	head, _, _ := strings.Cut(indexText(t, dir), "\n")
	addLine(t, dir, strings.Repeat("\n", 100<<10))
	require.NoError(t, d.Rewrite(t.Context(), ref, func(records iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		require.Contains(t, indexText(t, dir), `{"erase":"a"}`)
		require.Contains(t, indexText(t, dir), head)
		require.Len(t, list(t, other), 2)
		_, err := other.Load(t.Context(), driver.KeyRef{Agent: "main", Owner: words[1], Key: words[3]}, nil)
		require.NoError(t, err)
		return wordless(records, write)
	}))
	require.Less(t, len(indexText(t, dir)), 10<<10)
	require.Contains(t, indexText(t, dir), head)
	create(t, other, "c", "k3")
	require.Empty(t, wordsIn(t, dir))
	require.Len(t, list(t, d), 3)
	require.NoError(t, errors.Join(d.Close(), other.Close()))
	d = open(t, dir, nil)
	create(t, d, "d", "k3")
	require.Empty(t, wordsIn(t, dir))
	require.Len(t, list(t, d), 4)
}

// Readers do not wait for an erase, and a row that they read during it does not stay.
func TestListDuringAnErase(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := wordy(t, d, "a")
	require.NoError(t, d.Rewrite(t.Context(), ref, func(records iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		listed := make(chan error, 1)
		go func() {
			_, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Owner: words[1], Key: words[3]}, nil)
			_, listErr := d.List(t.Context(), "main", driver.Position{}, 0)
			listed <- errors.Join(err, listErr)
		}()
		select {
		case err := <-listed:
			require.NoError(t, err)
		case <-hang(t, 10*time.Second).Done():
			t.Error("List waits for an erase")
		}
		return wordless(records, write)
	}))
	require.Equal(t, "k", list(t, d)[0].Key)
	create(t, d, "b", "k")
	require.Empty(t, wordsIn(t, dir))
}

// A process that made the row of a session during an erase makes it once more when it
// finishes that erase for a killed process, even if the new transcript is as long as
// the old one.
func TestEraseOfEqualSize(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", words[3]).Ref()
	addLine(t, dir, `{"erase":"a"}`)
	require.Equal(t, words[3], list(t, d)[0].Key)
	text, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	key := strings.Repeat("k", len(words[3]))
	require.NoError(t, os.WriteFile(d.Path(ref), bytes.ReplaceAll(text, []byte(words[3]), []byte(key)), 0o600))
	create(t, d, "b", "k")
	require.Empty(t, wordsIn(t, dir))
	require.Equal(t, "a", load(t, d, key, ""))
}

// The lines of a session whose transcript is not a file cannot be replaced.
func TestRewriteOfAFolder(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	require.NoError(t, os.Mkdir(d.Path(ref), 0o700))
	d = open(t, dir, nil)
	err := d.Rewrite(t.Context(), ref, func(iter.Seq2[transcript.Record, error], func([]byte) error) error { return nil })
	require.ErrorContains(t, err, "not a regular file")
	require.DirExists(t, d.Path(ref))
}

// A row written after the deletion of its session, by a process that missed the
// deletion, is removed as well.
func TestRowBehindADeletion(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	wordy(t, d, "a")
	require.NoError(t, d.Close())
	text := indexText(t, dir)
	last, _, _ := strings.Cut(text[strings.LastIndex(text, `{"row":`):], "\n")
	require.Contains(t, last, words[4])
	addLine(t, dir, `{"delete":"a"}`+"\n"+last)
	require.NoError(t, os.Chmod(filepath.Join(dir, "agents/main/sessions.jsonl"), 0o600|os.ModeSticky))
	d = open(t, dir, nil)
	require.Empty(t, wordsIn(t, dir))
	require.Empty(t, list(t, d))
}

// An index whose lock is held is still read, and a deletion that waits for the
// lock is logged.
func TestDeletionIsLeftToTheHolder(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	addLine(t, dir, `{"delete":"a"}`)
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	lock, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, lock.Lock(t.Context(), 0))
	var log strings.Builder
	d = open(t, dir, &filedriver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Len(t, list(t, d), 1)
	require.Contains(t, log.String(), "an interrupted deletion")
	require.NoError(t, errors.Join(lock.Close(), root.Close(), d.Close()))
}

// Sessions can be deleted while an erase cannot be finished, for example on a full disk. It
// is finished once there is room.
func TestDeleteBesideAnUnfinishedErase(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	wordy(t, d, "erased")
	addLine(t, dir, `{"erase":"erased"}`)
	inTheWay := filepath.Join(dir, "agents/main/sessions.jsonl.tmp-0123456789abcdef")
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	require.Error(t, d.Delete(t.Context(), driver.Anywhere, ref), "its row is still there")
	require.NoFileExists(t, d.Path(ref))
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.NotContains(t, indexText(t, dir), `{"erase":`)
	require.Len(t, list(t, d), 1)
}

// A rewrite whose context ends before its change does leaves the lines as they are.
func TestRewriteIsGivenUp(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	ref := wordy(t, d, "a")
	before, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, d.Rewrite(ctx, ref, func(records iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		cancel()
		return wordless(records, write)
	}), context.Canceled)
	after, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}
