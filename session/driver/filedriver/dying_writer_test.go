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

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript/filelog"
)

const syncByte = 1<<62 + 2 // of a transcript, which a sync holds

// A writer whose sync has failed still lives, and has not set the mark yet, when
// another process opens its transcript; it dies while that process waits for its sync.
// The bytes that it left are compared before anything is said to be durable, also if
// it seems to live on: a dying process loses its locks one after the other.
func TestWriterThatDiesWhileOthersWait(t *testing.T) {
	t.Parallel()
	cond := driver.Cond{Idem: "key", IdemHash: "hash"}
	promises := map[string]func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error{
		"append": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error {
			_, err := d.Append(ctx, ref, notes(1), driver.Cond{})
			return err
		},
		"repeated": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error {
			_, err := d.Append(ctx, ref, keyed("key", 2), cond)
			return err
		},
		"flush":   func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Flush(ctx, ref) },
		"recover": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Recover(ctx, ref) },
		"archive": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Archive(ctx, ref, nil) },
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
				res, err := d.Append(ctx, ref, keyed("key", 2), cond)
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
