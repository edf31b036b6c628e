//go:build unix

package filedriver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const withoutRoom = "FILEDRIVER_WITHOUT_ROOM"

// isLimited reports whether a test may set limits, which hold for the whole process.
// If not, it has run the test in a separate process.
func isLimited(t *testing.T) bool {
	t.Helper()
	if os.Getenv(withoutRoom) != "" {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), withoutRoom+"=1")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}

// A row that does not fit on the disk leaves the index unchanged, wherever in the row
// the space ends. The part of a line that a killed writer has left is cut off.
func TestIndexWithoutRoom(t *testing.T) {
	if !isLimited(t) {
		return
	}
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	before := indexText(t, dir)
	put := func(room int) error {
		var limit unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
		less := limit
		lower(&less.Cur, len(before)+room)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &less))
		defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)) }()
		return d.Put(t.Context(), row)
	}
	for room := range 100 {
		row.Title = fmt.Sprint("title ", room)
		err := put(room)
		require.ErrorIs(t, err, syscall.EFBIG)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "nothing was written")
		require.Equal(t, before, indexText(t, dir))
	}
	addPart(t, dir, `{"by":1,"row":{"id":"a","si`)
	require.ErrorIs(t, put(0), syscall.EFBIG)
	require.Equal(t, before, indexText(t, dir))
	require.NoError(t, d.Put(t.Context(), row))
	require.Equal(t, row.Title, list(t, d)[0].Title)
}

// A disk too full for a copy does not keep a transcript with the mark of a failed
// sync: a transcript to remove is not copied.
func TestDeleteWithoutRoom(t *testing.T) {
	if !isLimited(t) {
		return
	}
	d := open(t, t.TempDir(), &filedriver.Options{Sync: filelog.SyncAlways})
	marked := func(id string, torn int64) driver.Ref {
		ref := create(t, d, id, "k").Ref()
		res, err := d.Append(t.Context(), ref, notes(1000), driver.Anywhere, nil)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(d.Path(ref), int64(res.End)-torn))
		require.NoError(t, os.Chmod(d.Path(ref), 0o600|os.ModeSticky))
		return ref
	}
	plain, whole, torn := marked("plain", 0), marked("whole", 0), marked("torn", 5)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	less := limit
	lower(&less.Cur, 16<<10) // enough for the index
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &less))
	planned := map[string]driver.Cursor{}
	for _, row := range list(t, d) {
		planned[row.ID] = driver.Cursor(row.Size)
	}
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, plain))
	require.NoError(t, d.Delete(t.Context(), planned["whole"], whole))
	require.NoError(t, d.Delete(t.Context(), planned["torn"], torn))
	for _, ref := range []driver.Ref{plain, whole, torn} {
		require.NoFileExists(t, d.Path(ref))
	}
}

// Sessions can be deleted although the index cannot get a line, even if rows and the end
// of a dead writer are missing in it. If it cannot be rewritten, the deletion is
// repeated later, by any process.
func TestDeleteWithoutRoomInTheIndex(t *testing.T) {
	if !isLimited(t) {
		return
	}
	dir := t.TempDir()
	d := open(t, dir, nil)
	for _, id := range []string{"a", "b", "c"} {
		create(t, d, id, "key of "+id)
	}
	addLine(t, dir, `{"open":5555555}`)
	appendText(t, d.Path(driver.Ref{Agent: "main", ID: "c"}), []byte(`{"type":"user","id":"u","content":"x"}`+"\n"))
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	remove := func(d *filedriver.Driver, id string) error {
		less := limit
		lower(&less.Cur, len(indexText(t, dir)))
		addPart(t, dir, `{"row":{"id":"a","si`) // a writer was killed
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &less))
		defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)) }()
		return d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: id})
	}
	require.NoError(t, remove(d, "a"))
	require.NoFileExists(t, d.Path(driver.Ref{Agent: "main", ID: "a"}))
	require.NotContains(t, indexText(t, dir), "key of a")

	inTheWay := filepath.Join(dir, "agents/main/sessions.jsonl.tmp-0123456789abcdef")
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
	for range 2 {
		require.Error(t, remove(d, "b"))
	}
	other := open(t, dir, nil)
	require.Error(t, remove(other, "b"))
	require.NoError(t, os.RemoveAll(inTheWay))
	require.NoError(t, remove(other, "b"))
	require.NotContains(t, indexText(t, dir), "key of b")
	require.ErrorIs(t, remove(d, "b"), fs.ErrNotExist)
	require.Len(t, list(t, d), 1)
	require.NoError(t, errors.Join(other.Close(), d.Close()))
}

// A transcript that cannot be opened for want of descriptors does not count as
// unlocked: the deletion is finished later.
func TestDeleteWithoutDescriptors(t *testing.T) {
	if !isLimited(t) {
		return
	}
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 1) // has no transcript open
	root, err := os.OpenRoot(filepath.Dir(d.Path(ref)))
	require.NoError(t, err)
	l, err := filelog.Open(root, "a.jsonl", nil)
	require.NoError(t, err)
	release, err := l.Hold(t.Context())
	require.NoError(t, err)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	lower(&limit.Cur, 64)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	var all []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			break
		}
		all = append(all, f)
	}
	require.Error(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.FileExists(t, d.Path(ref))
	for _, f := range all {
		require.NoError(t, f.Close())
	}
	release()
	require.NoError(t, errors.Join(l.Close(), root.Close()))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.NoFileExists(t, d.Path(ref))
}

// A session is current once its line is in the transcript, even if the row does not
// fit into the index: this process knows it as others do, and gives no gen twice.
func TestCurrentWithoutRoom(t *testing.T) {
	if !isLimited(t) {
		return
	}
	dir, ctx := t.TempDir(), t.Context()
	var log strings.Builder
	d := open(t, dir, &filedriver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	first := create(t, d, "a", "k")
	first.Size = int64(add(t, d, first.Ref(), "1").End)
	require.NoError(t, d.Put(ctx, first))
	add(t, d, create(t, d, "b", "k").Ref(), "2")
	for i := range 20 { // so that the transcript is smaller than the index
		create(t, d, fmt.Sprint("o", i), fmt.Sprint("k", i))
	}
	other := open(t, dir, nil)
	current := func(d *filedriver.Driver) string {
		row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil)
		require.NoError(t, err)
		return fmt.Sprint(row.ID, row.Gen)
	}
	require.Equal(t, []string{"b2", "b2"}, []string{current(d), current(other)})

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	row, err := d.SetCurrent(ctx, first.Ref(), 0, func(gen int64) driver.Line {
		less := limit
		lower(&less.Cur, len(indexText(t, dir))+5)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &less))
		e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: gen}}
		return driver.Line{ID: "c", Data: e.Line()}
	})
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	require.NoError(t, err)
	require.EqualValues(t, 3, row.Gen)
	require.Contains(t, log.String(), "readers look at its files")
	require.Equal(t, []string{"a3", "a3"}, []string{current(d), current(other)})
	require.EqualValues(t, 4, create(t, d, "c", "k").Gen)
	require.Equal(t, []string{"c4", "c4"}, []string{current(d), current(other)})
	require.NoError(t, errors.Join(other.Close(), d.Close()))
	d = open(t, dir, nil)
	require.Equal(t, "c4", current(d))
}

// lower lowers a limit, which has another type on some systems.
func lower[T int64 | uint64](limit *T, to int) { *limit = min(*limit, T(to)) }

// leaveDescriptors leaves the process n more file descriptors. The function that it
// returns takes that back.
func leaveDescriptors(t *testing.T, n int) (restore func()) {
	t.Helper()
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	first := int(f.Fd()) // that is free again now
	require.NoError(t, f.Close())
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	less := limit
	lower(&less.Cur, first+n)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &less))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }
}

// A process without free file descriptors reports that. It does not take agents
// or archives for missing, which a caller would leave out of a list or an
// erase.
func TestWithoutFileDescriptorsNothingIsGone(t *testing.T) {
	if !isLimited(t) {
		return
	}
	dir := t.TempDir()
	d := open(t, dir, nil)
	archived := create(t, d, "archived", "k").Ref()
	create(t, d, "b", "k")
	require.NoError(t, d.Archive(t.Context(), archived, driver.Anywhere))
	list(t, d)
	failed := 0
	for room := range 10 {
		restore := leaveDescriptors(t, room)
		agents, agentsErr := agentsOf(t.Context(), d)
		_, getErr := d.Get(t.Context(), archived)
		_, createErr := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header(archived.ID, "k"))
		restore()
		if agentsErr == nil {
			require.Equal(t, []string{"main"}, agents)
		} else {
			failed++
			require.ErrorIs(t, agentsErr, syscall.EMFILE)
			require.ErrorContains(t, agentsErr, filepath.Join(dir, "agents"))
		}
		if getErr != nil {
			require.ErrorIs(t, getErr, syscall.EMFILE)
			require.ErrorContains(t, getErr, archivePath(dir, archived.ID))
		}
		require.Error(t, createErr)
		require.Len(t, list(t, d), 2)
	}
	require.NotZero(t, failed)
}

// A list made from the transcripts after the loss of the index holds all sessions or
// fails for want of file descriptors; the next list of the process holds them all.
func TestListWithoutFileDescriptors(t *testing.T) {
	if !isLimited(t) {
		return
	}
	failed := 0
	for room := range 6 {
		dir := t.TempDir()
		d := open(t, dir, nil)
		archived := create(t, d, "archived", "k").Ref()
		create(t, d, "b", "k")
		require.NoError(t, d.Archive(t.Context(), archived, driver.Anywhere))
		require.NoError(t, d.Close())
		loseIndex(t, dir)
		d = open(t, dir, nil)
		_, err := d.Get(t.Context(), driver.Ref{Agent: "main", ID: "none"}) // opens the agent
		require.ErrorIs(t, err, fs.ErrNotExist)
		restore := leaveDescriptors(t, room)
		rows, err := d.List(t.Context(), "main", driver.Position{}, 0)
		restore()
		if err == nil {
			require.Len(t, rows, 2)
		} else {
			failed++
			require.ErrorIs(t, err, syscall.EMFILE)
			require.ErrorContains(t, err, dir)
		}
		require.Len(t, list(t, d), 2)
		require.NoError(t, d.Close())
	}
	require.NotZero(t, failed)
}
