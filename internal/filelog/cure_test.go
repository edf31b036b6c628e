package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A Log that cannot set the mark acknowledges nothing before its Recover, and sets the
// mark at Close.
func TestMarkFails(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		d.setOp(func(op string) error {
			if op == "sync" || op == "mark" {
				return errFault
			}
			return nil
		})
		_, _, err := l.Append(t.Context(), Lines([]byte("two\n")))
		require.Error(t, err)
		d.setOp(nil)
		_, _, err = l.Append(t.Context(), Lines([]byte("no\n")))
		require.True(t, isRefused(err))
		require.False(t, d.marked(t))
		if recovers {
			require.NoError(t, l.Recover(t.Context()))
			require.NoError(t, l.Close())
		} else {
			require.Error(t, l.Close())
			require.True(t, d.marked(t))
			next := d.open(t, SyncAlways)
			require.NoError(t, next.Flush(t.Context()))
			closeAll(t, next)
		}
		wantDisk(t, d, workFirst+"two\n")
	}
}

// A copy that does not fit changes nothing, reports the bytes it needs, and is
// made once there is room.
func TestCureMeetsAFullDisk(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	other := d.open(t, SyncAlways)
	size := len(workFirst) + len("two\n")
	for _, cure := range []func() error{
		func() error { return l.Recover(t.Context()) },
		func() error { _, _, err := other.Append(t.Context(), Lines([]byte("three\n"))); return err },
	} {
		d.setOp(failOnce("write"))
		err := cure()
		require.ErrorIs(t, err, errFault)
		require.Contains(t, err.Error(), fmt.Sprintf("needs %d bytes", size))
		require.Equal(t, workFirst+"two\n", d.inCache(t))
		require.True(t, d.marked(t))
		names, err := os.ReadDir(d.root.Name())
		require.NoError(t, err)
		require.Len(t, names, 1)
	}
	d.setOp(nil)
	mustAppend(t, other, "three\n")
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"two\nthree\n")
	closeAll(t, l, other)
}

// Acknowledged lines are not safe in a copy whose name may not survive a power
// cut: the Log that made it has failed.
func TestCureMeetsAFolderThatCannotBeSynced(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncInterval(1e18)), d.open(t, SyncAlways)
	mustAppend(t, l, "interval\n")
	mustAppend(t, l, "more\n")
	require.NoError(t, l.file().Mark(true)) // as a third process has
	d.setOp(failOnce("sync folder"))
	_, _, err := l.Append(t.Context(), Lines([]byte("no\n")))
	require.True(t, isRefused(err), "Append = %v", err)
	d.setOp(nil)
	failed := l.Failed()
	require.NotNil(t, failed)
	require.EqualValues(t, len(workFirst), failed.Start)
	require.EqualValues(t, len(workFirst+"interval\nmore\n"), failed.End)
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"interval\nmore\n")
	closeAll(t, l, other)
}

// The copy is this Log's own file from the moment it has the name, even while its
// folder is synced: no call of this Log returns ErrReplaced.
func TestReadingDuringACure(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	want := workFirst + "two\n"
	looks := 0
	look := func() {
		size, err := l.Size()
		require.NoError(t, err)
		require.EqualValues(t, len(want), size)
		got := make([]byte, len(want))
		_, err = l.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		looks++
	}
	d.setOp(func(op string) error {
		if op == "move" || op == "sync folder" {
			look()
		}
		return nil
	})
	require.NoError(t, l.Recover(t.Context()))
	require.Equal(t, 2, looks)
	d.setOp(nil)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := l.Size(); err != nil {
				t.Errorf("Size during a cure = %v", err)
				return
			}
		}
	})
	for range 50 {
		require.NoError(t, l.file().Mark(true))
		require.NoError(t, l.Flush(t.Context()))
	}
	close(stop)
	wg.Wait()
	require.Equal(t, 51, d.copies())
	wantDisk(t, d, want)
	closeAll(t, l)
}

// Flush finds a mark that another Log sets during its sync: the failed sync may
// concern the same bytes as its own.
func TestFlushFindsAMarkOfItsOwnSync(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncInterval(1e18)), d.open(t, SyncAlways)
	mustAppend(t, l, "one\n")
	marked := false
	d.setOp(func(op string) error {
		if op == "sync" && !marked {
			marked = true
			require.NoError(t, other.file().Mark(true))
		}
		return nil
	})
	require.NoError(t, l.Flush(t.Context()))
	d.setOp(nil)
	require.True(t, marked)
	require.Equal(t, 1, d.copies())
	wantDisk(t, d, workFirst+"one\n")
	closeAll(t, l, other)
}

// Lines that are all in a copy by another Log are safe there, and this Log owes
// nothing more.
func TestLinesAreInTheCopyOfAnother(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncInterval(1e18))
	mustAppend(t, other, "interval\n")
	mustAppend(t, other, "again\n")
	_ = wantInDoubt(t, d, l, "two\n")
	third := d.open(t, SyncNever)
	mustAppend(t, third, "three\n") // makes the copy
	require.NoError(t, l.Recover(t.Context()))
	require.NoError(t, other.Sync(t.Context()))
	require.Nil(t, other.Failed())
	require.False(t, other.Owes())
	_, _, err := other.Append(t.Context(), Lines([]byte("no\n")))
	require.ErrorIs(t, err, ErrReplaced)
	require.Equal(t, workFirst+"interval\nagain\ntwo\nthree\n", d.inCache(t))
	closeAll(t, l, other, third)
}

// A lender counts the append locks still held when a file is closed.
type lender struct {
	file
	held bool
	kept *int
}

func (f *lender) Lock(shared bool) (bool, error) {
	ok, err := f.file.Lock(shared)
	f.held = f.held || ok
	return ok, err
}

func (f *lender) Unlock() error {
	f.held = false
	return f.file.Unlock()
}

func (f *lender) Close() error {
	if f.held {
		*f.kept++
	}
	return f.file.Close()
}

// The lock of a compared copy is released, not left to the descriptor, which a
// child process may have inherited.
func TestComparingReturnsTheLock(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncInterval(1e18))
	mustAppend(t, other, "interval\n")
	_ = wantInDoubt(t, d, l, "two\n")
	require.NoError(t, l.Recover(t.Context()))
	opened, kept := 0, 0
	d.mutate = func(f file) file {
		opened++
		return &lender{file: f, kept: &kept}
	}
	require.NoError(t, other.Sync(t.Context()))
	require.Equal(t, []int{1, 0}, []int{opened, kept})
	closeAll(t, l, other)
}

// A lockless file cannot be locked.
type lockless struct{ file }

func (lockless) Lock(bool) (bool, error) { return false, errFault }

// An unread file cannot be read.
type unread struct{ file }

func (unread) ReadAt([]byte, int64) (int, error) { return 0, errFault }

// Lines that cannot be compared with the copy of another Log are in doubt.
func TestTheCopyOfAnotherCannotBeRead(t *testing.T) {
	for _, mutate := range []func(file) file{
		func(f file) file { return lockless{f} },
		func(f file) file { return unread{f} },
	} {
		d := newCacheDisk(t)
		l, other := d.create(t, SyncAlways), d.open(t, SyncInterval(1e18))
		mustAppend(t, other, "interval\n")
		e := wantInDoubt(t, d, l, "two\n")
		require.NoError(t, l.Recover(t.Context()))
		d.mutate = mutate
		failed, ok := errors.AsType[*driver.NotDurableError](other.Flush(t.Context()))
		require.True(t, ok)
		require.ErrorIs(t, failed, errFault)
		require.Equal(t, e.Start, failed.End)
		require.ErrorIs(t, other.Recover(t.Context()), errFault)
		d.mutate = nil
		require.NoError(t, other.Recover(t.Context()))
		require.NoError(t, other.Flush(t.Context()))
		wantDisk(t, d, workFirst+"interval\ntwo\n")
		mustAppend(t, other, "three\n")
		closeAll(t, l, other)
	}
}

// Of two calls that recover a Log one makes the copy.
func TestRecoverTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l := d.create(t, SyncAlways)
		_ = wantInDoubt(t, d, l, "two\n")
		let := slowSyncs(d)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- l.Recover(context.Background()) }()
		}
		pending(t, "during the copy", done)
		close(let) // for the copy, and for the syncs of it
		require.NoError(t, errors.Join(<-done, <-done))
		require.Equal(t, 1, d.copies())
		d.setOp(nil)
		wantDisk(t, d, workFirst+"two\n")
		closeAll(t, l)
	})
}

// A file that is removed while its copy is made does not come back.
func TestRecoverMeetsARemoval(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	d.setOp(func(op string) error {
		if op == "move" {
			return d.root.Remove(workName)
		}
		return nil
	})
	require.Error(t, l.Recover(t.Context()))
	d.setOp(nil)
	require.ErrorIs(t, l.Recover(t.Context()), ErrReplaced)
	names, err := os.ReadDir(d.root.Name())
	require.NoError(t, err)
	require.Empty(t, names)
	require.Error(t, l.Close(), "after a failed sync")
}

// A cure that cannot read the file does not copy NULs instead.
func TestCopyLinesOfAFileThatCannotBeRead(t *testing.T) {
	var to strings.Builder
	err := copyLines(&to, unreadable{}, 4, unsynced{})
	require.ErrorIs(t, err, errFault)
	require.Empty(t, to.String())
}

// An overtaken file's failed sync is cured by another Log before its own Log
// continues.
type overtaken struct {
	file
	cure func()
}

func (f overtaken) Mark(on bool) error {
	err := f.file.Mark(on)
	if on {
		f.cure()
	}
	return err
}

// Lines whose sync fails are acknowledged if a sound copy holds them.
func TestFailedSyncIsOvertaken(t *testing.T) {
	d := newCacheDisk(t)
	other := d.create(t, SyncAlways)
	d.mutate = func(f file) file {
		return overtaken{f, func() { mustAppend(t, other, "three\n") }}
	}
	l := d.open(t, SyncAlways)
	d.mutate = nil
	d.setOp(failOnce("sync"))
	mustAppend(t, l, "two\n")
	d.setOp(nil)
	require.Nil(t, l.Failed())
	require.Equal(t, 1, d.copies())
	_, _, err := l.Append(t.Context(), Lines([]byte("no\n")))
	require.ErrorIs(t, err, ErrReplaced)
	wantDisk(t, d, workFirst+"two\nthree\n")
	closeAll(t, l, other)
}

// A file that is like the log but for NULs in the place of its lines is a bad copy.
func TestTheCopyOfAnotherLacksLines(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	mustAppend(t, l, "interval\n")
	d.replace(t, workFirst+strings.Repeat("\x00", len("interval\n")))
	failed, ok := errors.AsType[*driver.NotDurableError](l.Flush(t.Context()))
	require.True(t, ok)
	require.ErrorContains(t, failed, "lacks them")
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"interval\n")
	closeAll(t, l)
}

// A file that shares only the first line with the log is not a copy of it. The log's
// unsynced lines are not written to it.
func TestAnotherFileWithTheSameFirstLine(t *testing.T) {
	long := strings.Repeat("long ", 2000) + "\n"
	for _, test := range []struct{ lines, others string }{
		{"owed\n", ""},
		{"owed\n", "own\n"},
		{"owed\n", "another line\n"},
		{long + "owed\n", long + "ours\n"},
		{"a" + long, "b" + long},
	} {
		for _, fails := range []bool{false, true} {
			d := newCacheDisk(t)
			l := d.create(t, SyncInterval(1e18))
			mustAppend(t, l, test.lines)
			if fails {
				d.setOp(failOnce("sync"))
				require.Error(t, l.Flush(t.Context()))
				d.setOp(nil)
			}
			d.replace(t, workFirst+test.others)
			for range 2 {
				err := l.Recover(t.Context())
				require.ErrorIs(t, err, ErrReplaced)
				_, failed := errors.AsType[*driver.NotDurableError](err)
				require.False(t, failed, "%.20q: %v", test.others, err)
			}
			require.Equal(t, workFirst+test.others, d.inCache(t))
			require.Equal(t, fails, l.Close() != nil)
		}
	}
}

// A Log that keeps no lines cannot compare them with another Log's copy, so its
// failed sync counts.
func TestFailedSyncOfALogThatKeepsNoLines(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncNever)
	mustAppend(t, l, "never\n")
	d.replace(t, workFirst+"never\n")
	d.setOp(failOnce("sync"))
	_, ok := errors.AsType[*driver.NotDurableError](l.Sync(t.Context()))
	require.True(t, ok)
	d.setOp(nil)
	require.ErrorIs(t, l.Close(), errFault)
}

// On a sound Log Recover is Flush.
func TestRecoverOfASoundLog(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	mustAppend(t, l, "one\n")
	require.NoError(t, l.Recover(t.Context()))
	require.Zero(t, d.copies())
	wantDisk(t, d, workFirst+"one\n")
	closeAll(t, l)
}
