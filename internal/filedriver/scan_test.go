package filedriver_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A failed append may be taken back while the transcript is read: the loop
// continues with the remaining lines, and gives none of them twice.
func TestScanOfTranscriptThatBecomesShorter(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
	scans := map[string]func(driver.Ref) iter.Seq2[transcript.Record, error]{
		"forward": func(ref driver.Ref) iter.Seq2[transcript.Record, error] {
			return d.Scan(ctx, ref, 0, driver.Forward, nil)
		},
		"backward": func(ref driver.Ref) iter.Seq2[transcript.Record, error] {
			return d.Scan(ctx, ref, 0, driver.Backward, nil)
		},
		"sift": func(ref driver.Ref) iter.Seq2[transcript.Record, error] {
			return d.Scan(ctx, ref, 0, driver.Backward, func(driver.Cursor, []byte) bool { return true })
		},
	}
	for name, scan := range scans {
		t.Run(name, func(t *testing.T) {
			ref := create(t, d, name, "k").Ref()
			_, err := d.Append(ctx, ref, notes(300), driver.Anywhere, nil)
			require.NoError(t, err)
			var want []string
			for rec, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
				require.NoError(t, err)
				want = append(want, rec.Entry.ID)
			}
			info, err := os.Stat(d.Path(ref))
			require.NoError(t, err)
			var refused strings.Builder
			for i := range 2000 {
				fmt.Fprintf(&refused, `{"type":"user","id":"refused-%d","ts":"2026-11-20T08:00:00Z","content":%q}`+"\n", i, strings.Repeat("x", 100))
			}
			tail := refused.String()
			if name == "forward" { // whole lines are given, and cannot be taken back
				tail = strings.ReplaceAll(tail, "}\n", "")
			}
			appendRaw(t, d.Path(ref), []byte(tail))

			given := map[string]int{}
			cut := false
			for rec, err := range scan(ref) {
				require.NoError(t, err)
				given[rec.Entry.ID]++
				if !cut {
					require.NoError(t, os.Truncate(d.Path(ref), info.Size()))
					cut = true
				}
			}
			for _, id := range want {
				require.Equal(t, 1, given[id], id)
				delete(given, id)
			}
			for id := range given {
				require.True(t, strings.HasPrefix(id, "refused-"), id)
			}
		})
	}
}

// A sift that keeps no line ends when its driver is closed or its context is done.
func TestSiftThatIsEnded(t *testing.T) {
	for name, want := range map[string]error{"closed": driver.ErrClosed, "cancelled": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := open(t, t.TempDir(), &filedriver.Options{Sync: filelog.SyncNever})
			ref := create(t, d, "a", "k").Ref()
			for range 10 {
				_, err := d.Append(ctx, ref, notes(300), driver.Anywhere, nil)
				require.NoError(t, err)
			}
			blocks := 0
			keep := func(at driver.Cursor, _ []byte) bool {
				require.NotZero(t, at, "there are more lines in front")
				if blocks++; name == "cancelled" {
					cancel()
				} else {
					require.NoError(t, d.Close())
				}
				return false
			}
			var errs []error
			for rec, err := range d.Scan(ctx, ref, 0, driver.Backward, keep) {
				require.False(t, err == nil, "%v was not kept", rec)
				errs = append(errs, err)
			}
			require.Len(t, errs, 1)
			require.ErrorIs(t, errs[0], want)
			require.Equal(t, 1, blocks)
		})
	}
}

// A search finds a last line whose newline was lost, though it wants no other line.
func TestSiftOfALineWithoutNewline(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	add(t, d, ref, "2")
	info, err := os.Stat(d.Path(ref))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(d.Path(ref), info.Size()-1))
	ids, _ := readAll(t, d.Scan(t.Context(), ref, 0, driver.Backward, func(_ driver.Cursor, lines []byte) bool {
		return bytes.Contains(lines, []byte(`"id":"2"`))
	}))
	require.Equal(t, []string{"2"}, ids)
}

// A read-only driver leaves out a line that is being written, in every kind of
// reading, and finds it once it is whole.
func TestReadOnlyBesideAWriter(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	whole, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	loseIndex(t, dir) // so that the row is made of the lines

	ro := open(t, dir, &filedriver.Options{ReadOnly: true, Describe: described(new([]string)).Describe})
	var next driver.Cursor
	keep := func(driver.Cursor, []byte) bool { return true }
	look := func(when string, want ...string) {
		t.Helper()
		for name, records := range map[string]iter.Seq2[transcript.Record, error]{
			"forward":  ro.Scan(ctx, ref, 0, driver.Forward, nil),
			"backward": ro.Scan(ctx, ref, 0, driver.Backward, nil),
			"sift":     ro.Scan(ctx, ref, 0, driver.Backward, keep),
		} {
			var got []string
			for rec, err := range records {
				require.NoError(t, err)
				require.Nil(t, rec.Damage, "%s, %s", name, when)
				got = append(got, rec.Entry.ID)
			}
			require.ElementsMatch(t, want, got, "%s, %s", name, when)
		}
		for rec, err := range ro.Scan(ctx, ref, next, driver.Forward, nil) {
			require.NoError(t, err)
			require.Nil(t, rec.Damage)
			next = driver.Cursor(rec.End)
		}
		require.Equal(t, len(want), list(t, ro)[0].Messages, when)
	}

	root, err := os.OpenRoot(filepath.Dir(ro.Path(ref)))
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	writer, err := filelog.Open(root, filepath.Base(ro.Path(ref)), &filelog.Options{Sync: filelog.SyncNever})
	require.NoError(t, err)
	release, err := writer.Hold(ctx)
	require.NoError(t, err)
	line := append(note("2").Data, '\n')
	appendText(t, ro.Path(ref), line[:10])
	look("while a line is being written", "a", "1")
	require.Equal(t, driver.Cursor(len(whole)), next)
	appendText(t, ro.Path(ref), line[10:])
	look("when the line is there", "a", "1", "2")
	release()

	// An unfinished line of a dead writer is final, and no append changes it.
	unended := note("3").Data
	appendText(t, ro.Path(ref), unended)
	look("with a whole line that nobody ends", "a", "1", "2", "3")
	_, _, err = writer.Append(ctx, func(int64) ([]byte, error) { return append(note("4").Data, '\n'), nil })
	require.NoError(t, err)
	look("behind it", "a", "1", "2", "3", "4")
	require.NoError(t, writer.Close())
}
