package filedriver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// A transcript that cannot be deleted blocks no other session. If the index is
// rewritten then, it keeps the line and the mark by which Open finds the
// deletion.
func TestRewriteKeepsTheMarkOfADeletion(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	ref := wordy(t, d, "gone")
	// A non-empty folder cannot be removed like a transcript.
	require.NoError(t, os.Rename(d.Path(ref), d.Path(ref)+".moved"))
	require.NoError(t, os.MkdirAll(filepath.Join(d.Path(ref), "full"), 0o700))
	require.Error(t, d.Delete(t.Context(), driver.Anywhere, ref))
	addLine(t, dir, "damage") // a reason to rewrite the index
	create(t, d, "x", "k")
	require.Equal(t, "y", load(t, d, "new key", "y"))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "x"}))
	require.NotContains(t, indexText(t, dir), "damage")
	require.Contains(t, indexText(t, dir), `{"delete":"gone"}`)
	_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("gone", "k"))
	require.ErrorIs(t, err, fs.ErrExist)
	info, err := os.Stat(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSticky)
	require.NoError(t, d.Close())

	require.NoError(t, os.RemoveAll(d.Path(ref)))
	require.NoError(t, os.Rename(d.Path(ref)+".moved", d.Path(ref)))
	require.NoError(t, open(t, dir, nil).Close())
	require.Empty(t, wordsIn(t, dir))
}

// The line of a deletion may itself be a reason to rewrite the index. The new one has
// the mark when it gets its name, so that Open finds the deletion after a kill.
func TestKilledWhenADeletionRewritesTheIndex(t *testing.T) {
	dir, left := t.TempDir(), t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	ref := wordy(t, d, "gone")
	addLine(t, dir, strings.Repeat("\n", 100<<10))
	kills := 0
	d.SetStep(func(step string) {
		if step != "index: has its name" || !strings.Contains(indexText(t, dir), `{"delete":"gone"}`) {
			return
		}
		kills++
		require.NoError(t, os.CopyFS(left, os.DirFS(dir)))
		const name = "agents/main/sessions.jsonl"
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.Chmod(filepath.Join(left, name), info.Mode())) // CopyFS leaves that out
	})
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.Equal(t, 1, kills)
	require.NoError(t, d.Close())
	require.NotEmpty(t, wordsIn(t, left))
	open(t, left, nil)
	require.Empty(t, wordsIn(t, left), "opening alone removes the words")
}

// If a kill comes between a deletion's mark and its line, the next write clears
// the mark.
func TestMarkWithoutADeletion(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	require.NoError(t, d.Close())
	name := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.Chmod(name, 0o600|fs.ModeSticky))
	d = open(t, dir, nil)
	require.NoError(t, d.Put(t.Context(), row))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Zero(t, info.Mode()&fs.ModeSticky)
	require.Len(t, list(t, d), 1)
}

// The ID of a session stays in use until all its files are removed: finishing its
// deletion would remove the files of a new session.
func TestIDOfAnUnfinishedDeletion(t *testing.T) {
	for _, file := range []string{"archive/a.jsonl.gz", "sessions/a.jsonl"} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			d, other := open(t, dir, nil), open(t, dir, nil)
			ref := create(t, d, "a", "k").Ref()
			list(t, other)
			inTheWay := filepath.Join(dir, "agents/main", file)
			require.NoError(t, os.RemoveAll(inTheWay))
			require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
			require.Error(t, d.Delete(t.Context(), driver.Anywhere, ref))
			for _, d := range []*filedriver.Driver{d, other} {
				_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("a", "k"))
				require.ErrorIs(t, err, fs.ErrExist)
				require.ErrorContains(t, d.Delete(t.Context(), driver.Anywhere, ref), "not empty")
				require.Empty(t, list(t, d))
			}
			require.NoError(t, os.RemoveAll(inTheWay))
			require.NoError(t, other.Delete(t.Context(), driver.Anywhere, ref))
			create(t, d, "a", "k")
			create(t, other, "b", "k")
			add(t, d, ref, "1")
			require.Len(t, list(t, d), 2)
			require.NoError(t, errors.Join(d.Close(), other.Close()))
			d = open(t, dir, nil)
			require.Len(t, list(t, d), 2)
		})
	}
}

// The error of an unfinished deletion names the file and reports that the session is no
// longer listed, whichever step failed.
func TestErrorOfAnUnfinishedDeletion(t *testing.T) {
	for _, file := range []string{
		"sessions/a.jsonl.tmp-0123456789abcdef", "archive/a.jsonl.gz", "archive/a.jsonl.gz.tmp-0123456789abcdef",
		"sessions.jsonl.tmp-0123456789abcdef",
	} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			ref := create(t, d, "a", "k").Ref()
			create(t, d, "b", "k")
			inTheWay := filepath.Join(dir, "agents/main", file)
			require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
			for range 2 {
				err := d.Delete(t.Context(), driver.Anywhere, ref)
				e, ok := errors.AsType[*filelog.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "delete session", e.Op)
				named, _, _ := strings.Cut(file, ".tmp-")
				require.Equal(t, filepath.Join(dir, "agents/main", named), e.Path)
				require.Contains(t, e.Fix, "the deletion has begun; delete it again")
				require.NotContains(t, err.Error(), "nothing was written")
				require.Len(t, list(t, d), 1)
			}
			require.NoError(t, os.RemoveAll(inTheWay))
			require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
			require.NotContains(t, indexText(t, dir), `"a"`)
		})
	}
}

// A kill inside Create leaves a temporary file with the words of the header.
// The next writer removes it.
func TestKilledCreateLeavesNoWord(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	require.NoError(t, d.Close())
	addLine(t, dir, `{"change":"half"}`)
	temp := d.Path(driver.Ref{Agent: "main", ID: "half"}) + ".tmp-0123456789abcdef"
	require.NoError(t, os.WriteFile(temp, []byte(strings.Join(words, " ")), 0o600))
	d = open(t, dir, nil)
	create(t, d, "next", "k")
	require.Empty(t, wordsIn(t, dir))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "next"})) // rewrites the index
	require.NotContains(t, indexText(t, dir), "half")
}

// half leaves files with words of killed processes, unknown to the index: a power cut
// may take an unsynced line and leave a synced file.
func half(t *testing.T, dir string) {
	t.Helper()
	agent := filepath.Join(dir, "agents/main")
	require.NoError(t, os.MkdirAll(filepath.Join(agent, "archive"), 0o700))
	for _, name := range []string{"sessions/half.jsonl", "sessions/stays.jsonl", "archive/stays.jsonl.gz"} {
		temp := filepath.Join(agent, name+".tmp-0123456789abcdef")
		require.NoError(t, os.WriteFile(temp, []byte(strings.Join(words, " ")), 0o600))
	}
}

// The first index of a new boot, and one that is made again, removes the files that
// killed processes were making.
func TestPowerCutLeavesNoWord(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, dir string){
		"another boot": func(t *testing.T, dir string) {
			before, rest, _ := strings.Cut(indexText(t, dir), `"boot":"`)
			path := filepath.Join(dir, "agents/main/sessions.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(before+`"boot":"another`+rest), 0o600))
		},
		"lost":    loseIndex,
		"damaged": func(t *testing.T, dir string) { addLine(t, dir, "damage") },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			ref := create(t, d, "stays", "k").Ref()
			require.NoError(t, d.Close())
			half(t, dir)
			change(t, dir)
			d = open(t, dir, nil)
			add(t, d, ref, "1")
			create(t, d, "next", "k")
			require.Empty(t, wordsIn(t, dir))
			require.Len(t, list(t, d), 2)
		})
	}
}

// A row with a sound beginning and a damaged end does not hide its session.
func TestDamagedRow(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	ref := wordy(t, d, "b")
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	text := strings.ReplaceAll(indexText(t, dir), `"title":"`, `"title:"`)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for _, opts := range []*filedriver.Options{{ReadOnly: true}, {}} {
		d = open(t, dir, opts)
		require.Len(t, list(t, d), 2)
		row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Owner: words[1], Key: words[3]}, nil)
		require.NoError(t, err)
		require.Equal(t, ref.ID, row.ID)
		require.NoError(t, d.Close())
	}
	d = open(t, dir, nil)
	list(t, d)
	create(t, d, "c", "k")
	require.Contains(t, indexText(t, dir)[len(text):], `"row":{"id":"b"`, "the next writer puts it right")
}

// A process that appended to a session that was deleted and made again under the
// same ID gets one error, and then appends to the new one.
func TestAppendToASessionMadeAgain(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, other, ref, "1")
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	_, err := other.Append(t.Context(), ref, []driver.Line{note("no")}, driver.Anywhere, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	create(t, d, "a", "k")
	for range 2 {
		if _, err = other.Append(t.Context(), ref, []driver.Line{note("2")}, driver.Anywhere, nil); err == nil {
			break
		}
		require.ErrorIs(t, err, driver.ErrReplaced)
	}
	require.NoError(t, err)
}

// A process stopped inside Delete does not keep others from opening the store.
func TestOpenBesideAStoppedDelete(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	wordy(t, d, "gone")
	require.NoError(t, d.Close())
	require.NoError(t, os.Chmod(filepath.Join(dir, "agents/main/sessions.jsonl"), 0o600|fs.ModeSticky))
	addLine(t, dir, `{"delete":"gone"}`)
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	stopped, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, stopped.Lock(t.Context(), 0))
	opened := make(chan error, 1)
	go func() {
		d, err := filedriver.Open(dir, nil)
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		require.NoError(t, err)
	case <-hang(t, 10*time.Second).Done():
		t.Error("Open waits for a process that was stopped")
	}
	require.NoError(t, stopped.Close())
	require.NoError(t, root.Close())
	require.NoError(t, open(t, dir, nil).Close())
	require.Empty(t, wordsIn(t, dir))
}

// Put works for a transcript that the index lacks.
func TestPutOfAnUnknownSession(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	require.NoError(t, d.Close())
	head, rest, _ := strings.Cut(indexText(t, dir), "\n")
	text := head + "\n" + rest[strings.LastIndex(rest, `{"listed":`):]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))

	d = open(t, dir, nil)
	require.Empty(t, list(t, d))
	row.Title = "put"
	require.NoError(t, d.Put(t.Context(), row))
	require.Equal(t, "put", list(t, d)[0].Title)
}

// The line that makes a session current counts if a kill left it without its
// '\n'.
func TestTornLineMakesCurrent(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	addLine(t, dir, `{"change":"a"}`)
	e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 7}}
	appendRaw(t, d.Path(a.Ref()), e.Line())
	info, err := os.Stat(d.Path(a.Ref()))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(d.Path(a.Ref()), info.Size()-1))

	d = open(t, dir, nil)
	require.Equal(t, "a", load(t, d, "k", ""))
}

// A session that others append to is made current, and its row covers their
// lines.
func TestSetCurrentOfABusySession(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, described(new([]string))), open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	highest := create(t, d, "b", "k").Gen
	add(t, other, ref, "1", "2")
	row, err := d.SetCurrent(t.Context(), ref, 0, func(gen int64) driver.Line {
		e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: gen}}
		return driver.Line{ID: "c", Data: e.Line()}
	})
	require.NoError(t, err)
	info, err := os.Stat(d.Path(ref))
	require.NoError(t, err)
	require.Equal(t, info.Size(), row.Size)
	require.Equal(t, highest+1, row.Gen)
	require.Equal(t, 3, row.Messages)
	require.Equal(t, "a", load(t, other, "k", ""))
}

// A transcript without a header gets no row, in a rewritten index either.
func TestRewriteOfAnUnknownKey(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "good", "k")
	require.NoError(t, d.Close())
	bad := driver.Ref{Agent: "main", ID: "bad"}
	require.NoError(t, os.WriteFile(d.Path(bad), append(note("x").Data, '\n'), 0o600))
	var log strings.Builder
	d = open(t, dir, &filedriver.Options{Sync: filelog.SyncNever, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	list(t, d)
	require.Contains(t, log.String(), "a transcript cannot be read")
	require.Contains(t, log.String(), d.Path(bad))
	addLine(t, dir, "damage")
	create(t, d, "next", "k")
	text := indexText(t, dir)
	require.NotContains(t, text, "damage")
	require.NotContains(t, text, `"row":{"id":"bad"`)
	require.NoError(t, os.WriteFile(d.Path(bad), []byte("garbage\n"), 0o600))
	_, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "another key"}, header("new", "another key"))
	require.ErrorContains(t, err, "its header cannot be read; nothing was written")
}

// After another boot only transcripts that differ from their rows are read, a
// damaged row is not kept, and of two sessions with one gen the one with entries
// stays current.
func TestRowsAfterABoot(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	d := open(t, dir, described(new([]string)))
	create(t, d, "a", "k")
	size := create(t, d, "b", "k").Size
	require.NoError(t, d.Close())
	row := `{"row":{"id":"%s","size":%d,"gen":1,%s"key":"k","messageCount":0,"turnCount":0,"tokenEstimate":0}}` + "\n"
	text := `{"index":3,"boot":"another","agent":"main"}` + "\n" + fmt.Sprintf(row, "a", size, `"lastId":"x",`) + fmt.Sprintf(row, "b", size, "")
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	d = open(t, dir, described(&asked))
	require.Len(t, list(t, d), 2)
	require.Empty(t, asked)
	require.Equal(t, "a", load(t, d, "k", ""))
	require.NoError(t, d.Close())

	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, `"turnCount":0`, `"turnCount:0`, 1)), 0o600))
	d = open(t, dir, described(&asked))
	create(t, d, "c", "other key") // rewrites the index
	for line := range strings.Lines(indexText(t, dir)) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	require.Len(t, list(t, d), 3)
}

// A session that was deleted and made again is another session, even for a process
// that had closed the transcript. It is reported once.
func TestMadeAgainBehindAClosedFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, &filedriver.Options{OpenFiles: -1})
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	other := open(t, dir, nil)
	require.NoError(t, other.Delete(t.Context(), driver.Anywhere, ref))
	create(t, other, "a", "another key")
	_, err := d.Append(t.Context(), ref, notes(1), driver.Anywhere, nil)
	require.ErrorIs(t, err, driver.ErrReplaced)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	add(t, d, ref, "2")
	require.NoError(t, errors.Join(other.Close(), d.Close()))
}

// A session that was deleted and imported again has the same header. A process that had
// closed its transcript still gets one error, unless nothing else differs.
func TestMadeAgainWithTheSameHeader(t *testing.T) {
	for what, openFiles := range map[string]int{"closed": -1, "open": 0, "closed later": 1} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			d, other := open(t, dir, &filedriver.Options{OpenFiles: openFiles}), open(t, dir, nil)
			row := create(t, d, "a", "k")
			ref := row.Ref()
			b, c := create(t, d, "b", "k2").Ref(), create(t, d, "c", "k3").Ref()
			row.Size = int64(add(t, d, ref, "old").End)
			head, err := os.ReadFile(d.Path(ref))
			require.NoError(t, err)
			require.NoError(t, d.Put(t.Context(), row))
			require.NoError(t, other.Delete(t.Context(), driver.Anywhere, ref))
			create(t, other, "a", "k")
			again, err := os.ReadFile(d.Path(ref))
			require.NoError(t, err)
			require.Equal(t, string(again), string(head[:len(again)]))
			for _, id := range []string{"new 1", "new 2", "new 3"} {
				add(t, other, ref, id)
			}
			add(t, d, b, "1") // closes the log of a
			add(t, d, c, "1")
			require.ErrorIs(t, d.Put(t.Context(), row), driver.ErrReplaced)
			_, err = d.Append(t.Context(), ref, notes(1), driver.Anywhere, nil)
			require.ErrorIs(t, err, driver.ErrReplaced)
			add(t, d, ref, "2")
			require.NoError(t, errors.Join(other.Close(), d.Close()))
		})
	}
}

// A row of a deleted session, which another process puts when the session was made again,
// is refused: its words would come back.
func TestPutOfASessionMadeAgain(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Title = "gone"
	row.Size = int64(add(t, d, row.Ref(), "1").End)
	require.NoError(t, d.Put(t.Context(), row))
	require.NoError(t, other.Delete(t.Context(), driver.Anywhere, row.Ref()))
	create(t, other, "a", "another key")
	require.ErrorIs(t, d.Put(t.Context(), row), driver.ErrReplaced)
	require.NotContains(t, indexText(t, dir), "gone")
	_, err := d.Append(t.Context(), row.Ref(), notes(1), driver.Anywhere, nil)
	require.ErrorIs(t, err, driver.ErrReplaced)
	row = list(t, d)[0]
	row.Title = "new"
	row.Size = int64(add(t, d, row.Ref(), "2").End)
	require.NoError(t, d.Put(t.Context(), row))
	require.Equal(t, "new", list(t, other)[0].Title)
	require.NoError(t, errors.Join(other.Close(), d.Close()))
}
