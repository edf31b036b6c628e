package filelog_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
)

func openLocks(t *testing.T, root *os.Root) *filelog.LockFile {
	t.Helper()
	l, err := filelog.OpenLockFile(root, "locks")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // some tests close it themselves
	return l
}

func lockRoot(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return root
}

// Two LockFiles exclude each other byte by byte, and each sees the other's
// locks.
func TestLockFileBytes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a lock on a byte")
	}
	root := lockRoot(t)
	a, b := openLocks(t, root), openLocks(t, root)
	require.NoError(t, a.Lock(t.Context(), 3))
	require.ErrorIs(t, b.TryLock(3), filelog.ErrBusy)
	require.ErrorIs(t, a.TryLock(3), filelog.ErrBusy, "the same LockFile")
	require.NoError(t, b.TryLock(4))

	held, err := b.Held(3)
	require.NoError(t, err)
	require.True(t, held)
	held, err = a.Held(3)
	require.NoError(t, err)
	require.False(t, held, "one's own lock does not count")

	require.NoError(t, a.Unlock(3))
	held, err = b.Held(3)
	require.NoError(t, err)
	require.False(t, held)
	require.NoError(t, b.TryLock(3))
	info, err := root.Stat("locks")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Zero(t, info.Size())
}

// A done context gives ErrBusy and the context's error, before and during the
// wait.
func TestLockFileContext(t *testing.T) {
	root := lockRoot(t)
	a, b := openLocks(t, root), openLocks(t, root)
	require.NoError(t, a.Lock(t.Context(), 0))
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	for range 2 {
		err := b.Lock(ctx, 0)
		require.ErrorIs(t, err, filelog.ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, a.Unlock(0))
	require.ErrorIs(t, b.Lock(ctx, 0), filelog.ErrBusy, "of a free byte")
	require.NoError(t, a.TryLock(0))
}

// Goroutines of one LockFile exclude each other as well as those of another.
func TestLockFileGoroutines(t *testing.T) {
	root := lockRoot(t)
	files := []*filelog.LockFile{openLocks(t, root), openLocks(t, root)}
	var inside, total atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l := files[i%2]
			for range 20 {
				if !assert.NoError(t, l.Lock(t.Context(), 0)) {
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two goroutines hold one byte")
				}
				total.Add(1)
				inside.Add(-1)
				assert.NoError(t, l.Unlock(0))
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 160, total.Load())
}

// Interrupt ends a wait; Close releases what is held.
func TestLockFileEnds(t *testing.T) {
	root := lockRoot(t)
	a, b := openLocks(t, root), openLocks(t, root)
	require.NoError(t, a.Lock(t.Context(), 0))
	done := make(chan error)
	go func() { done <- b.Lock(t.Context(), 0) }()
	b.Interrupt()
	require.ErrorIs(t, <-done, filelog.ErrClosed)
	require.NoError(t, a.Close())
	require.NoError(t, b.TryLock(0))
	require.NoError(t, b.Unlock(0))
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.TryLock(0), filelog.ErrClosed)
	require.ErrorIs(t, b.Close(), filelog.ErrClosed)
	_, err := b.Held(0)
	require.ErrorIs(t, err, filelog.ErrClosed)
	require.NoError(t, a.Unlock(0), "Close released it")
}

// Close ends a wait at once.
func TestLockFileCloseInterrupts(t *testing.T) {
	root := lockRoot(t)
	synctest.Test(t, func(t *testing.T) {
		a, b := openLocks(t, root), openLocks(t, root)
		require.NoError(t, a.Lock(t.Context(), 0))
		done := make(chan error)
		go func() { done <- b.Lock(context.Background(), 0) }()
		synctest.Wait()
		began := time.Now() // in the bubble's time
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-done, filelog.ErrClosed)
		require.Zero(t, time.Since(began))
	})
}

// After the file was removed, locks go to a new file, and a new LockFile meets
// them.
func TestLockFileReplaced(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a lock on a byte, and the removal of an open file")
	}
	root := lockRoot(t)
	a := openLocks(t, root)
	require.NoError(t, a.Lock(t.Context(), 1))
	require.NoError(t, os.Remove(filepath.Join(root.Name(), "locks")))
	require.ErrorIs(t, a.Lock(t.Context(), 2), filelog.ErrReplaced)
	require.NoError(t, a.Unlock(1))
	require.NoError(t, a.Lock(t.Context(), 2))
	b := openLocks(t, root)
	require.ErrorIs(t, b.TryLock(2), filelog.ErrBusy)
	require.NoError(t, b.TryLock(1))
	require.NoError(t, a.Unlock(2))
	require.NoError(t, b.TryLock(2))
	require.Panics(t, func() { _ = a.Unlock(2) })
}

// While the name is not a file's, locking fails; later it works again.
func TestLockFileComesBack(t *testing.T) {
	root := lockRoot(t)
	a := openLocks(t, root)
	require.NoError(t, root.Rename("locks", "moved"))
	require.NoError(t, root.Mkdir("locks", 0o700))
	for range 2 {
		require.ErrorContains(t, a.TryLock(0), "not a regular file")
	}
	require.NoError(t, root.Remove("locks"))
	require.NoError(t, a.TryLock(0))
	require.ErrorIs(t, openLocks(t, root).TryLock(0), filelog.ErrBusy)
}

// A file that cannot be made, or is not a regular file, is an error.
func TestLockFileCannotBeOpened(t *testing.T) {
	root := lockRoot(t)
	_, err := filelog.OpenLockFile(root, "missing/locks")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, root.Mkdir("folder", 0o700))
	_, err = filelog.OpenLockFile(root, "folder")
	require.ErrorContains(t, err, "not a regular file")
}

// Where a file has one lock, a claim of a byte takes none, and gives none back.
func TestClaimWithoutByteLocks(t *testing.T) {
	root := lockRoot(t)
	a, b := openLocks(t, root), openLocks(t, root)
	for _, l := range []*filelog.LockFile{a, b} {
		l.Whole()
		require.ErrorIs(t, l.TryLock(3), errors.ErrUnsupported)
		release, err := l.Claim(3)
		require.NoError(t, err)
		defer release()
	}
	release, err := a.Claim(0)
	require.NoError(t, err)
	_, err = b.Claim(0)
	require.ErrorIs(t, err, filelog.ErrBusy)
	release()
	require.NoError(t, b.TryLock(0))
}
