package filedriver_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

func archivePath(dir, id string) string {
	return filepath.Join(dir, "agents/main/archive", filename.Encode(id)+".jsonl.gz")
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	return data
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// scanned returns the entries of a session.
func scanned(t *testing.T, d *filedriver.Driver, ref driver.Ref) (ids []string) {
	t.Helper()
	for rec, err := range d.Scan(t.Context(), ref, 0, driver.Forward, nil) {
		require.NoError(t, err)
		if rec.HasEntry() {
			ids = append(ids, rec.Entry.ID)
		}
	}
	return ids
}

// An archive is the transcript as gzip, whatever its bytes, and is restored
// byte for byte: damage, long lines and a torn end included.
func TestArchiveBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 300, 200 << 10, 600 << 10} {
		dir := t.TempDir()
		d := open(t, dir, nil)
		ref := create(t, d, "a.B", "k").Ref()
		add(t, d, ref, "1")
		junk := make([]byte, size)
		for i := range junk {
			junk[i] = byte(rnd.Uint32() >> (i >> 10 % 8))
		}
		appendRaw(t, d.Path(ref), junk)
		d2 := open(t, dir, nil) // another process
		_, err := settle(t.Context(), d2, ref)
		require.NoError(t, err)
		want, err := os.ReadFile(d.Path(ref))
		require.NoError(t, err)
		before := scanned(t, d2, ref)

		require.NoError(t, d2.Archive(t.Context(), ref, driver.Anywhere))
		require.False(t, exists(d.Path(ref)))
		require.True(t, bytes.Equal(want, unzip(t, archivePath(dir, ref.ID))))
		info, err := os.Stat(archivePath(dir, ref.ID))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		require.Equal(t, before, scanned(t, d, ref))

		require.NoError(t, d.Restore(t.Context(), ref))
		require.False(t, exists(archivePath(dir, ref.ID)))
		got, err := os.ReadFile(d.Path(ref))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		require.NoError(t, d.Close())
		require.NoError(t, d2.Close())
	}
}

// A transcript that cannot be understood is neither archived nor removed.
func TestArchiveRefuses(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile(d.Path(ref), []byte("garbage\n"), 0o600))
	d = open(t, dir, nil)
	require.Error(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.Error(t, d.Delete(t.Context(), 0, ref))
	require.NoError(t, os.Truncate(d.Path(ref), 0))
	require.Error(t, d.Delete(t.Context(), 0, ref))
	require.NoError(t, os.WriteFile(d.Path(ref), []byte("garbage\n"), 0o600))
	data, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	require.Equal(t, "garbage\n", string(data))
	require.NoError(t, d.Close())

	ro := open(t, dir, &filedriver.Options{ReadOnly: true})
	require.ErrorIs(t, ro.Archive(t.Context(), ref, driver.Anywhere), driver.ErrReadOnly)
	require.ErrorIs(t, ro.Restore(t.Context(), ref), driver.ErrReadOnly)
}

// The index is made again from archives: from their headers, or from their
// content if a row did not fit there.
func TestIndexFromArchives(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	long := strings.Repeat("x", 70_000)
	var want []driver.Row
	for i, id := range []string{"a", "b", strings.Repeat("H", 100), "d"} {
		row := create(t, d, id, "k")
		row.Size = int64(add(t, d, row.Ref(), "1").End)
		row.LastID, row.Title = "1", fmt.Sprint("title ", i)
		if i == 1 {
			row.Title = long
		}
		require.NoError(t, d.Put(t.Context(), row))
		if id != "d" {
			require.NoError(t, d.Archive(t.Context(), row.Ref(), driver.Anywhere))
			row.Archived = true
		}
		row, err := d.Get(t.Context(), row.Ref())
		require.NoError(t, err)
		want = append(want, row)
	}
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, want[3].Ref()))
	want = want[:3]
	require.NoError(t, d.Close())
	want[1].Title, want[1].LastID = "", "" // Options.Describe would say it
	for _, lose := range []func(){
		func() { loseIndex(t, dir) },
		func() { addLine(t, dir, "damage") },
		func() {},
	} {
		lose()
		ro := open(t, dir, &filedriver.Options{ReadOnly: true})
		require.Len(t, list(t, ro), 3)
		require.NoError(t, ro.Close())
		d = open(t, dir, nil)
		agents, err := agentsOf(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, []string{"main"}, agents)
		for _, w := range want {
			got, err := d.Get(t.Context(), w.Ref())
			require.NoError(t, err)
			require.True(t, got.Archived)
			require.Equal(t, []any{w.Size, w.Key, w.Gen}, []any{got.Size, got.Key, got.Gen})
			if w.ID != "b" {
				require.Equal(t, w.Title, got.Title)
			}
		}
		_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("a", "k"))
		require.ErrorIs(t, err, fs.ErrExist)
		require.NoError(t, d.Close())
	}
	d = open(t, dir, nil)
	row := create(t, d, "new", "k")
	require.Equal(t, int64(4), row.Gen, "gens of archived sessions count")
}

// Each call that reads a damaged archive fails, and no other session is hidden.
func TestDamagedArchive(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	bad, good := create(t, d, "bad", "k").Ref(), create(t, d, "good", "k").Ref()
	require.NoError(t, d.Archive(t.Context(), bad, driver.Anywhere))
	require.NoError(t, d.Archive(t.Context(), good, driver.Anywhere))
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile(archivePath(dir, "bad"), []byte("no archive"), 0o600))
	for _, lost := range []bool{false, true} {
		if lost {
			loseIndex(t, dir)
		}
		d = open(t, dir, nil)
		for _, err := range d.Scan(t.Context(), bad, 0, driver.Forward, nil) {
			require.ErrorContains(t, err, archivePath(dir, "bad"))
		}
		require.Error(t, d.Restore(t.Context(), bad))
		require.Equal(t, []string{"good"}, scanned(t, d, good))
		id := fmt.Sprint("new", lost)
		row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: id}, header(id, id))
		require.NoError(t, err)
		require.Equal(t, id, row.ID)
		_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("bad", "k"))
		require.ErrorIs(t, err, fs.ErrExist)
		require.NoError(t, d.Close())
	}
	// Its beginning can be read, and its content cannot.
	data, err := os.ReadFile(archivePath(dir, "good"))
	require.NoError(t, err)
	data[len(data)-5] ^= 1 // the checksum
	require.NoError(t, os.WriteFile(archivePath(dir, "good"), data, 0o600))
	d = open(t, dir, nil)
	for _, err := range d.Scan(t.Context(), good, 0, driver.Forward, nil) {
		require.ErrorContains(t, err, archivePath(dir, "good"))
		require.ErrorContains(t, err, "restore the file from a copy")
	}
	require.ErrorContains(t, d.Restore(t.Context(), good), archivePath(dir, "good"))
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, bad))
	require.False(t, exists(archivePath(dir, "bad")))
}

// No word of a deleted archived session stays in the folder, packed or
// unpacked, whatever a kill had left of it.
func TestDeleteArchivedLeavesNoWord(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	ref := wordy(t, d, "gone")
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.Contains(t, string(unzip(t, archivePath(dir, "gone"))), words[0])
	data, err := os.ReadFile(archivePath(dir, "gone"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(archivePath(dir, "gone")+".tmp-0123456789abcdef", data, 0o600))
	require.NoError(t, os.WriteFile(d.Path(ref)+".tmp-0123456789abcdef", []byte(words[0]), 0o600))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.Empty(t, wordsIn(t, dir))
	files, err := os.ReadDir(filepath.Join(dir, "agents/main/archive"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// Archives are found without the folder of transcripts, which is empty where all
// sessions are archived: programs that copy only files leave it out.
func TestArchivesWithoutAFolderOfTranscripts(t *testing.T) {
	for _, agent := range []string{"main", strings.Repeat("Long name/", 30)} { // the name of the latter's folder is hashed
		dir := t.TempDir()
		d := open(t, dir, nil)
		row, err := d.Create(t.Context(), driver.KeyRef{Agent: agent, Key: "k"}, header("a", "k"))
		require.NoError(t, err)
		ref := row.Ref()
		require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
		require.NoError(t, d.Close())
		folder := filepath.Dir(d.Path(ref))
		require.NoError(t, os.Remove(folder))

		d = open(t, dir, &filedriver.Options{ReadOnly: true})
		_, err = d.List(t.Context(), agent, driver.Position{}, 0)
		if agent != "main" {
			_, err = agentsOf(t.Context(), d)
		}
		require.ErrorContains(t, err, folder)
		require.ErrorContains(t, err, "make an empty folder")
		require.NotErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, d.Close())
		require.False(t, exists(folder))

		d = open(t, dir, nil)
		agents, err := agentsOf(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, []string{agent}, agents)
		rows, err := d.List(t.Context(), agent, driver.Position{}, 0)
		require.NoError(t, err)
		require.True(t, rows[0].Archived)
		require.Equal(t, []string{"a"}, scanned(t, d, ref))
		require.NoError(t, d.Restore(t.Context(), ref))
		require.Equal(t, []string{"a"}, scanned(t, d, ref))
		require.NoError(t, d.Close())
	}
}

// Appended lines are read from the archive at the same cursors, forwards and backwards,
// and sifted.
func TestArchiveReadsAsTranscript(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(3, 4))
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	for i := range 200 {
		text := strings.Repeat(fmt.Sprint("word", i, " "), 1+rnd.IntN(1000))
		e := transcript.Entry{ID: fmt.Sprint("e", i), Body: transcript.Custom{Name: "note", Data: fmt.Appendf(nil, "%q", text)}}
		_, err := d.Append(t.Context(), ref, []driver.Line{{ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil)
		require.NoError(t, err)
	}
	read := func(from driver.Cursor, dir driver.Direction) (all []string) {
		for rec, err := range d.Scan(t.Context(), ref, from, dir, nil) {
			require.NoError(t, err)
			all = append(all, fmt.Sprint(rec.Offset, rec.End, string(rec.Entry.Line())))
		}
		return all
	}
	sift := func() (all []string) {
		keep := func(_ driver.Cursor, lines []byte) bool { return bytes.Contains(lines, []byte("word17")) }
		for rec, err := range d.Scan(t.Context(), ref, 0, driver.Backward, keep) {
			require.NoError(t, err)
			all = append(all, rec.Entry.ID)
		}
		return all
	}
	end, err := endOf(t.Context(), d, ref)
	require.NoError(t, err)
	var froms []driver.Cursor
	for range 10 {
		froms = append(froms, driver.Cursor(rnd.Int64N(int64(end)+1)))
	}
	readAll := func() (all [][]string) {
		for _, from := range froms {
			all = append(all, read(from, driver.Forward), read(from, driver.Backward))
		}
		return append(all, sift())
	}
	before := readAll()
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.Equal(t, before, readAll())
	err = nil
	for _, scanErr := range d.Scan(t.Context(), ref, end+1, driver.Forward, nil) {
		err = errors.Join(err, scanErr)
	}
	require.ErrorIs(t, err, driver.ErrReplaced, "as from a transcript that was cut")
}
