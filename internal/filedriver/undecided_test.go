package filedriver_test

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// hold takes the append lock of a session, as another writing process would.
func hold(t *testing.T, d *filedriver.Driver, ref driver.Ref) (release func()) {
	t.Helper()
	root, err := os.OpenRoot(filepath.Dir(d.Path(ref)))
	require.NoError(t, err)
	l, err := filelog.Open(root, filepath.Base(d.Path(ref)), &filelog.Options{Sync: filelog.SyncNever})
	require.NoError(t, err)
	unlock, err := l.Hold(t.Context())
	require.NoError(t, err)
	return func() {
		unlock()
		require.NoError(t, l.Close())
		require.NoError(t, root.Close())
	}
}

// readAll returns the IDs of the entries of a scan, "damage" for damage, and the
// cursor behind them.
func readAll(t *testing.T, records iter.Seq2[transcript.Record, error]) (ids []string, next driver.Cursor) {
	t.Helper()
	for rec, err := range records {
		require.NoError(t, err)
		next = max(next, driver.Cursor(rec.End))
		if rec.HasEntry() {
			ids = append(ids, rec.Entry.ID)
		} else {
			ids = append(ids, "damage")
		}
	}
	return ids, next
}

func lineOf(l driver.Line) string { return string(l.Data) + "\n" }

// No scan yields the first lines of an append that is being written: if the append
// fails they are taken back, and other lines take their place.
func TestScanBesideAnAppendThatFails(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	all := func(from driver.Cursor) (ids []string, next driver.Cursor) {
		ids, next = readAll(t, d.Scan(ctx, ref, from, driver.Forward, nil))
		if from == 0 {
			sifted, _ := readAll(t, d.Scan(ctx, ref, 0, driver.Backward, func(driver.Cursor, []byte) bool { return true }))
			slices.Reverse(sifted)
			require.Equal(t, ids, sifted)
			back, _ := readAll(t, d.Scan(ctx, ref, 0, driver.Backward, nil))
			slices.Reverse(back)
			require.Equal(t, ids, back)
		}
		return ids, next
	}
	info, err := os.Stat(d.Path(ref))
	require.NoError(t, err)

	release := hold(t, d, ref)
	fails := keyed("fails", 3)
	appendText(t, d.Path(ref), []byte(lineOf(fails[0])+lineOf(fails[1])[:9]))
	ids, next := all(0)
	require.Equal(t, []string{"a", "1"}, ids)
	require.EqualValues(t, info.Size(), next)
	require.NoError(t, os.Truncate(d.Path(ref), info.Size()))
	appendText(t, d.Path(ref), []byte(lineOf(keyed("longer", 1)[0])))
	ids, next = all(next)
	require.Equal(t, []string{"longer0"}, ids)

	// Damage and an incomplete append stay once others have written after them.
	dead := keyed("dead", 2)
	appendText(t, d.Path(ref), []byte("?\n"+lineOf(dead[0])))
	ids, _ = all(next)
	require.Empty(t, ids)
	appendText(t, d.Path(ref), []byte(lineOf(note("2"))))
	ids, _ = all(next)
	require.Equal(t, []string{"damage", "dead0", "2"}, ids)
	appendText(t, d.Path(ref), []byte("?\n"))
	ids, _ = all(0)
	require.Equal(t, []string{"a", "1", "longer0", "damage", "dead0", "2"}, ids)
	release()

	// And when nobody writes.
	appendText(t, d.Path(ref), []byte(lineOf(dead[0])+"?\n"))
	for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
		ids, _ = readAll(t, d.Scan(ctx, ref, next, dir, nil))
		require.Subset(t, ids, []string{"damage", "dead0"})
	}
}

// A scan does not continue in the middle of a line written during it.
func TestScanOfATranscriptThatIsCutAndGrows(t *testing.T) {
	{
		dir, ctx := t.TempDir(), t.Context()
		d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
		ref := create(t, d, "a", "k").Ref()
		text := func(id string, batch, bytes int) string {
			body := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
			e := transcript.Entry{ID: id, Batch: batch, Body: body.WithContent(transcript.TextBlock{Text: strings.Repeat("x", bytes)})}
			return string(e.Line()) + "\n" // without a checksum
		}
		appendText(t, d.Path(ref), []byte(text("first", 0, 50_000)))
		info, err := os.Stat(d.Path(ref))
		require.NoError(t, err)
		appendText(t, d.Path(ref), []byte(text("taken back", 3, 60_000)))
		var ids []string
		for rec, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
			require.NoError(t, err)
			if len(ids) == 0 { // the first 64 KiB were read
				require.NoError(t, os.Truncate(d.Path(ref), info.Size()))
				appendText(t, d.Path(ref), []byte(text("second", 0, 30_000)+text("third", 0, 30_100)))
			}
			ids = append(ids, rec.Entry.ID)
		}
		rest, _ := readAll(t, d.Scan(ctx, ref, driver.Cursor(info.Size()), driver.Forward, nil))
		require.Equal(t, []string{"second", "third"}, rest)
		require.Subset(t, []string{"a", "first", "second", "third"}, ids)
		require.NoError(t, d.Close())
	}
}

// A scan does not continue after lines that it holds back: if the file was cut, it reads
// again from the first of them.
func TestScanOfAnAppendThatIsTakenBack(t *testing.T) {
	text := func(id string, batch, part, bytes int) string {
		body := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
		e := transcript.Entry{ID: id, Batch: batch, Part: part, Body: body.WithContent(transcript.TextBlock{Text: strings.Repeat("x", bytes)})}
		return string(e.Line()) + "\n"
	}
	for _, next := range []string{"", text("second", 0, 0, 3_000), text("new1", 2, 0, 10_000) + text("new2", 0, 2, 60_000)} {
		dir, ctx := t.TempDir(), t.Context()
		d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
		ref := create(t, d, "a", "k").Ref()
		appendText(t, d.Path(ref), []byte(text("first", 0, 0, 50_000)))
		info, err := os.Stat(d.Path(ref))
		require.NoError(t, err)
		appendText(t, d.Path(ref), []byte(text("old1", 2, 0, 10_000)+text("old2", 0, 2, 60_000)[:50_000]))
		var ids []string
		for rec, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
			require.NoError(t, err)
			if ids = append(ids, rec.Entry.ID); rec.Entry.ID == "first" {
				require.NoError(t, os.Truncate(d.Path(ref), info.Size()))
				appendText(t, d.Path(ref), []byte(next))
			}
		}
		require.Equal(t, []string{"a", "first"}, ids[:2])
		require.Subset(t, []string{"second", "new1", "new2"}, ids[2:])
		require.NoError(t, d.Close())
	}
}

// A scan that meets damage waits for no copy of the transcript, and makes none.
func TestScanOfAMarkedFile(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	appendText(t, d.Path(ref), []byte("?\n"+lineOf(note("1"))+"torn"))
	require.NoError(t, os.Chmod(d.Path(ref), 0o600|os.ModeSticky))
	before, err := os.Stat(d.Path(ref))
	require.NoError(t, err)
	d = open(t, dir, nil)
	ids, _ := readAll(t, d.Scan(ctx, ref, 0, driver.Forward, nil))
	require.Equal(t, []string{"a", "damage", "1", "damage"}, ids)
	after, err := os.Stat(d.Path(ref))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Equal(t, before.Size(), after.Size())
}
