package filelog

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A kill without a failure costs no copy, and a mark that outlives the process
// costs one.
func TestSuspectKeepsASoundFile(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, driver.SyncAlways)
	mustAppend(t, l, "one\n")
	d.kill()
	before, err := d.root.Lstat(workName)
	require.NoError(t, err)
	for _, policy := range []driver.SyncPolicy{driver.SyncAlways, driver.SyncInterval(1e18), driver.SyncNever} {
		next := d.open(t, policy)
		next.Suspect(3)
		next.Suspect(int64(len(workFirst)))
		matches := 0
		d.setOp(func(op string) error {
			if op == "match" {
				matches++
			}
			return nil
		})
		mustAppend(t, next, "more\n")
		mustAppend(t, next, "more\n")
		require.Zero(t, next.Copies())
		require.Equal(t, policy != driver.SyncNever, matches == 1, "%d", matches)
		d.setOp(nil)
		closeAll(t, next)
	}
	after, err := d.root.Lstat(workName)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))

	// Where the cache cannot be bypassed a copy is the only proof.
	d.setOp(failOnce("match"))
	next := d.open(t, driver.SyncAlways)
	next.Suspect(0)
	require.NoError(t, next.Flush(t.Context()))
	require.EqualValues(t, 1, next.Copies())
	closeAll(t, next)
}

// Under driver.SyncNever a suspicion stays until a flush, which alone says something about the
// disk, and then costs a comparison too.
func TestSuspectStaysUnderSyncNever(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, driver.SyncNever)
	d.setOp(failOnce("match"))
	l.Suspect(3)
	mustAppend(t, l, "one\n")
	release, err := l.Hold(t.Context())
	require.NoError(t, err)
	release()
	require.True(t, l.Suspects())
	require.Zero(t, l.Copies())
	require.NoError(t, l.Flush(t.Context()))
	require.False(t, l.Suspects())
	require.EqualValues(t, 1, l.Copies())
	d.setOp(nil)
	wantDisk(t, d, workFirst+"one\n")
	closeAll(t, l)
}

// The bytes that others may have left are compared once, before the first
// acknowledgement. Where the disk cannot be asked nobody makes a copy because of a
// living process, which would make a copy of the copy.
func TestOthersKeepASoundFile(t *testing.T) {
	d := newCacheDisk(t)
	closeAll(t, d.create(t, driver.SyncAlways))
	asked, matches := 0, 0
	open := func() *Log {
		asked, matches = 0, 0
		l, err := Open(d.root, workName, &Options{seam: d.seam(), UnsyncedByOthers: func() (int64, error) { asked++; return 3, nil }})
		require.NoError(t, err)
		return l
	}
	for _, match := range []error{nil, errors.ErrUnsupported} {
		d.setOp(func(op string) error {
			if op != "match" {
				return nil
			}
			matches++
			return match
		})
		l := open()
		require.NoError(t, l.Flush(t.Context()))
		mustAppend(t, l, "more\n")
		require.Equal(t, []int{1, 1, 0}, []int{asked, matches, int(l.Copies())})
		closeAll(t, l)
	}
	l := open()
	l.Suspect(3) // one of them is dead
	mustAppend(t, l, "more\n")
	require.EqualValues(t, 1, l.Copies())
	closeAll(t, l)
}

// A dying process that looks alive may have taken the report of a failed sync with it.
func TestOthersAreCompared(t *testing.T) {
	for what, promise := range map[string]func(l *Log) error{
		"append": func(l *Log) error { _, _, err := l.Append(t.Context(), []byte("three\n"), -1); return err },
		"flush":  func(l *Log) error { return l.Flush(t.Context()) },
	} {
		t.Run(what, func(t *testing.T) {
			d := newCacheDisk(t)
			l := d.create(t, driver.SyncAlways)
			from, err := l.Size()
			require.NoError(t, err)
			d.setOp(failOnce("sync"))
			_, _, err = l.Append(t.Context(), []byte("two\n"), -1)
			require.ErrorIs(t, err, errFault)
			d.kill()
			require.NoError(t, d.root.Chmod(workName, 0o600)) // it was killed before it could set the mark
			next, err := Open(d.root, workName, &Options{seam: d.seam(), UnsyncedByOthers: func() (int64, error) { return from, nil }})
			require.NoError(t, err)
			d.last.knows = 1
			require.NoError(t, promise(next))
			require.EqualValues(t, 1, next.Copies())
			require.Empty(t, d.lost(workFirst, "two\n"))
			closeAll(t, next)
		})
	}
}

// Sync puts on the disk what a Log owes, and leaves the mark and a suspicion to whoever
// promises something.
func TestSyncLeavesDoubts(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, driver.SyncInterval(1e18))
	mustAppend(t, l, "one\n")
	l.Suspect(3)
	require.NoError(t, l.file().Mark(true))
	require.NoError(t, l.Sync(t.Context()))
	require.Empty(t, d.lost(workFirst, "one\n"))
	require.True(t, l.Suspects())
	require.True(t, d.marked(t))
	mustAppend(t, l, "two\n")
	d.setOp(failOnce("sync"))
	failed, ok := errors.AsType[*driver.NotDurableError](l.Sync(t.Context()))
	require.True(t, ok)
	require.Same(t, failed, l.Failed())
	d.setOp(nil)
	require.NoError(t, l.Recover(t.Context()))
	closeAll(t, l)
	require.ErrorIs(t, l.Sync(t.Context()), ErrClosed)
}

// A suspicion is checked by a sync, whose failure is one of the Log.
func TestSuspectMeetsAFailingSync(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, driver.SyncAlways)
	next := d.open(t, driver.SyncAlways)
	next.Suspect(3)
	d.setOp(failOnce("sync"))
	_, _, err := next.Append(t.Context(), []byte("no\n"), -1)
	require.True(t, isRefused(err), "Append = %v", err)
	require.ErrorIs(t, err, errFault)
	require.EqualValues(t, 3, next.Failed().Start)
	d.setOp(nil)
	require.NoError(t, next.Recover(t.Context()))
	mustAppend(t, next, "two\n")
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l, next)
}
