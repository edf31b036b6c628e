package filedriver

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// openMade opens a driver in a new folder, with sessions of one key. It is closed with the
// test at the latest.
func openMade(t *testing.T, opts *Options, ids ...string) *Driver {
	t.Helper()
	d, err := Open(t.TempDir(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	for _, id := range ids {
		_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(int64) (driver.Row, driver.Line) { return driver.Row{ID: id}, headerOf(id) })
		require.NoError(t, err)
	}
	return d
}

func headerOf(id string) driver.Line {
	return driver.Line{ID: id, Data: fmt.Appendf(nil, `{"type":"session","id":%q,"key":"k","gen":1}`, id)}
}

// A process that was stopped during an append to a session does not keep the lock of the
// index from others: a call that needs both locks gives up.
func TestCallsBesideAStoppedAppend(t *testing.T) {
	ref := driver.Ref{Agent: "main", ID: "a"}
	for name, call := range map[string]func(ctx context.Context, d *Driver) error{
		"archive": func(ctx context.Context, d *Driver) error { return d.Archive(ctx, ref, driver.Anywhere) },
		"delete at": func(ctx context.Context, d *Driver) error {
			return d.Delete(ctx, driver.Cursor(len(headerOf("a").Data)+1), ref)
		},
		"set current": func(ctx context.Context, d *Driver) error {
			_, err := d.SetCurrent(ctx, ref, 0, func(int64) driver.Line { return headerOf("a") })
			return err
		},
		"rewrite": func(ctx context.Context, d *Driver) error {
			return d.Rewrite(ctx, ref, func(iter.Seq2[transcript.Record, error], func([]byte) error) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openMade(t, &Options{Sync: filelog.SyncNever}, "a", "b") // b is the current one
				stopped, err := filelog.Open(d.agents["main"].sess, fileName("a"), nil)
				require.NoError(t, err)
				release, err := stopped.Hold(t.Context())
				require.NoError(t, err)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorIs(t, call(ctx, d), driver.ErrBusy)
				require.Less(t, time.Since(began), 30*busyWait)
				release()
				require.NoError(t, stopped.Close())
			})
		})
	}
}

// While the index takes no lines, the rows that it lacks are noted once, however many
// writers try.
func TestNewsAreNotedOnce(t *testing.T) {
	d := openMade(t, nil, "a")
	x := d.agents["main"].idx
	require.NoError(t, x.locked(t.Context(), func() error { return x.change("a") }))
	readOnly, err := os.Open(x.file.Name())
	require.NoError(t, err)
	file := x.file
	x.file = readOnly
	for range 3 {
		require.NoError(t, x.hold(t.Context(), func() error { return nil }))
	}
	require.Len(t, x.news, 1)
	require.NoError(t, readOnly.Close())
	x.file = file
	require.NoError(t, x.hold(t.Context(), func() error { return nil }))
	require.Empty(t, x.news)
}

// A transcript that is read keeps its own size, even if the driver has opened another one
// of its name since.
func TestSizeOfAReplacedTranscript(t *testing.T) {
	d := openMade(t, nil, "a")
	a, ref := d.agents["main"], driver.Ref{Agent: "main", ID: "a"}
	f, err := a.stat("a")
	require.NoError(t, err)
	o, err := a.open(f)
	require.NoError(t, err)

	path := d.Path(ref)
	shorter := filepath.Join(t.TempDir(), "shorter")
	require.NoError(t, os.WriteFile(shorter, []byte(`{"type":"session","id":"a"}`+"\n"), 0o600))
	require.NoError(t, os.Rename(shorter, path))
	require.ErrorIs(t, d.Flush(t.Context(), ref, false), driver.ErrReplaced)
	require.NoError(t, d.Flush(t.Context(), ref, false)) // the new one is open now

	size, ok, err := o.TrySize()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, f.size, size)
	o.close()
}

// A deletion that finds a copy in the place of a transcript waits for the lock of the
// copy: its holder may be about to put another one in its place.
func TestRemoveLocksACopy(t *testing.T) {
	t.Parallel()
	d := openMade(t, nil, "a")
	a := d.agents["main"]
	path := d.Path(driver.Ref{Agent: "main", ID: "a"})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", text, 0o600))
	l, err := filelog.Open(a.sess, "a.jsonl.copy", nil)
	require.NoError(t, err)
	release, err := l.Hold(t.Context())
	require.NoError(t, err)
	copied := false
	d.step = func(step string) {
		if step == "delete: lock" && !copied {
			copied = true
			require.NoError(t, os.Rename(path+".copy", path))
		}
	}
	require.ErrorIs(t, a.remove("a", 100*time.Millisecond), context.DeadlineExceeded)
	require.FileExists(t, path)
	release()
	require.NoError(t, l.Close())
	require.NoError(t, a.remove("a", time.Minute))
	require.NoFileExists(t, path)
}

// A deletion leaves nothing of a session in memory, and counts one that is named twice once.
func TestDeleteForgets(t *testing.T) {
	d := openMade(t, nil, "a", "b", "c")
	a, b := driver.Ref{Agent: "main", ID: "a"}, driver.Ref{Agent: "main", ID: "b"}
	require.NoError(t, d.Flush(t.Context(), b, false)) // opens its log
	require.NoError(t, d.Delete(t.Context(), driver.Cursor(len(headerOf("a").Data)+1), a, a))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, b))
	require.Len(t, d.marks, 1)
}
