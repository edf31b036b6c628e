//go:build linux

package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

const syncByte = 1<<62 + 2 // of a transcript, which a sync holds

// A writer whose sync has failed still lives, and has not set the mark yet, when
// another process opens its transcript; it dies while that process waits for its sync.
// The bytes that it left are compared before anything is said to be durable, also if
// it seems to live on: a dying process loses its locks one after the other.
func TestWriterThatDiesWhileOthersWait(t *testing.T) {
	t.Parallel()
	promises := map[string]func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error{
		"append": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error {
			_, err := d.Append(ctx, ref, notes(1), driver.Anywhere)
			return err
		},
		"flush":   func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Flush(ctx, ref, false) },
		"recover": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Flush(ctx, ref, true) },
		"archive": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error {
			return d.Archive(ctx, ref, driver.Anywhere)
		},
		"erase": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error {
			return d.Rewrite(ctx, ref, wordless)
		},
	}
	for name, promise := range promises {
		for _, last := range []string{"sync lock", "life"} {
			t.Run(name+", loses last its "+last, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				d := open(t, dir, nil)
				row := create(t, d, "a", "k")
				ref := row.Ref()
				res, err := d.Append(ctx, ref, keyed("key", 2), driver.Anywhere)
				require.NoError(t, err)
				row.Size = int64(res.End)
				require.NoError(t, d.Put(ctx, row))
				require.NoError(t, d.Close())

				// The other writer: its byte of sessions.lock, its busy line, its lines, and
				// the sync lock.
				root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
				require.NoError(t, err)
				defer root.Close()
				life, err := filelog.OpenLockFile(root, "sessions.lock")
				require.NoError(t, err)
				require.NoError(t, life.TryLock(deadWriter))
				addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, row.Size))
				appendRaw(t, d.Path(ref), note("left").Data)
				left := int64(len(note("left").Data)) + 1
				syncing, err := os.OpenFile(d.Path(ref), os.O_RDWR, 0)
				require.NoError(t, err)
				require.NoError(t, unix.FcntlFlock(syncing.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: syncByte, Len: 1}))

				var synced []int64
				d = open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
					if s, ok := e.(filelog.Synced); ok {
						synced = append(synced, s.Bytes)
					}
				}})
				done := make(chan error, 1)
				go func() { done <- promise(ctx, d, ref) }()
				busy, err := os.OpenFile(d.Path(ref), os.O_RDWR, 0) // to see who has the append lock
				require.NoError(t, err)
				for was, held := false, false; !was || held; was = was || held { // taken, and lent: it waits
					select {
					case err := <-done:
						t.Fatalf("it did not wait for the sync: %v", err)
					default:
					}
					request := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 1 << 62, Len: 1}
					require.NoError(t, unix.FcntlFlock(busy.Fd(), unix.F_OFD_GETLK, &request))
					held = request.Type != unix.F_UNLCK
				}
				if last == "sync lock" {
					require.NoError(t, life.Close())
				}
				require.NoError(t, syncing.Close())
				require.NoError(t, <-done)
				if last == "life" {
					require.NoError(t, life.Close())
				}
				require.NotEmpty(t, synced)
				require.Equal(t, left, synced[0], "the bytes that were left are synced and compared")
				require.NoError(t, errors.Join(busy.Close(), d.Close()))
			})
		}
	}
}

// A dying process loses its locks one after the other, so it may have lost the sync
// lock of a transcript and look alive all the same. The bytes that it may have left are
// compared.
func TestDyingWriterLooksAlive(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{})
	row := create(t, d, "a", "k")
	ref := row.Ref()
	require.NoError(t, d.Close())
	left := keyed("key", 1)[0].Data
	appendRaw(t, d.Path(ref), left)
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, row.Size))
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	life, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, life.TryLock(deadWriter))

	var synced []int64
	d = open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
		if s, ok := e.(filelog.Synced); ok {
			synced = append(synced, s.Bytes)
		}
	}})
	require.NoError(t, d.Flush(ctx, ref, false))
	require.Equal(t, int64(len(left))+1, synced[0])
	row.Size += int64(len(left)) + 1
	require.NoError(t, d.Put(ctx, row))
	require.NotContains(t, indexText(t, dir), "ends", "it may go on writing")
	require.NoError(t, life.Close())
	add(t, d, ref, "1") // it has died since
	row.Size = int64(add(t, d, ref, "2").End)
	require.NoError(t, d.Put(ctx, row))
	row.Size = int64(add(t, d, ref, "3").End)
	require.NoError(t, d.Put(ctx, row))
	require.Contains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter))
	require.NoError(t, d.Close())
	require.NoError(t, root.Close())
}

// Processes that live and append to one session keep its file, on a disk and in a
// file system in memory, and compare only what the other one has written since its
// last row.
func TestLivingWritersKeepTheFile(t *testing.T) {
	for _, where := range []string{"", "/dev/shm"} {
		dir, err := os.MkdirTemp(where, "filedriver") //nolint:usetesting // t.TempDir is on a disk
		if err != nil {
			t.Skip("this system has no file system in memory: ", err)
		}
		defer func() { require.NoError(t, os.RemoveAll(dir)) }()
		ctx := t.Context()
		var synced []int64
		observe := func(_ context.Context, _ driver.Ref, e filelog.Event) {
			if s, ok := e.(filelog.Synced); ok {
				synced = append(synced, s.Bytes)
			}
		}
		a := open(t, dir, &filedriver.Options{Observe: observe})
		row := create(t, a, "a", "k")
		ref := row.Ref()
		row.Size = int64(add(t, a, ref, "before").End)
		require.NoError(t, a.Put(ctx, row)) // the end of a turn
		last := add(t, a, ref, "last")
		info, err := os.Stat(a.Path(ref))
		require.NoError(t, err)
		synced = nil
		b := open(t, dir, &filedriver.Options{Observe: observe})
		add(t, b, ref, "b")
		require.Len(t, synced, 2)
		require.Equal(t, int64(last.End-last.Start), synced[0], "only what the other one has written since its row")
		for i := range 3 {
			add(t, a, ref, fmt.Sprint("a", i))
			add(t, b, ref, fmt.Sprint("b", i))
		}
		require.Len(t, synced, 8, "each looks once")
		now, err := os.Stat(a.Path(ref))
		require.NoError(t, err)
		require.True(t, os.SameFile(info, now))
		require.NoError(t, b.Close())
		require.NoError(t, a.Close())
	}
}
