package filelog

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// told holds the events of a Log, and the caller that each was for.
type told struct {
	syncs []Synced
	waits []Wait
	tails []Tail
	names []any
	then  func() // called each time
}

type nameKey struct{}

func (o *told) options(d *cacheDisk, policy SyncPolicy) *Options {
	return &Options{
		Sync: policy, seam: d.seam(),
		Observe: func(ctx context.Context, e Event) {
			switch e := e.(type) {
			case Synced:
				o.syncs = append(o.syncs, e)
			case Wait:
				o.waits = append(o.waits, e)
			case Tail:
				o.tails = append(o.tails, e)
			}
			o.names = append(o.names, ctx.Value(nameKey{}))
			o.then()
		},
	}
}

func watched(t *testing.T, d *cacheDisk, policy SyncPolicy) (*Log, *told) {
	t.Helper()
	closeAll(t, d.create(t, policy))
	o := &told{then: func() {}}
	l, err := Open(d.root, workName, o.options(d, policy))
	require.NoError(t, err)
	return l, o
}

// Syncs are reported with their time, size and outcome, each once, by the call
// that led it.
func TestOnSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l, o := watched(t, d, SyncAlways)
		let := slowSyncs(d)
		first := started(l, "first\n")
		second, third := started(l, "second\n"), started(l, "third\n")
		time.Sleep(3 * time.Millisecond)
		let <- nil
		synctest.Wait()
		time.Sleep(time.Millisecond)
		let <- errFault
		require.NoError(t, <-first)
		for _, c := range []chan error{second, third} {
			if err := <-c; !errors.Is(err, errFault) {
				t.Errorf("with a failing sync Append = %v", err)
			}
		}
		d.setOp(nil)
		ctx := context.WithValue(t.Context(), nameKey{}, "recover")
		require.NoError(t, l.Recover(ctx))
		_, _, err := l.Append(ctx, Lines([]byte("fourth\n")))
		require.NoError(t, err)
		want := []Synced{
			{Took: 3 * time.Millisecond, Bytes: int64(len("first\n")), Err: nil},
			{Took: time.Millisecond, Bytes: int64(len("second\nthird\n")), Err: errFault},
			{Took: 1, Bytes: int64(len(workFirst + "first\nsecond\nthird\n")), Err: nil},
			{Took: 1, Bytes: int64(len("fourth\n")), Err: nil},
		}
		require.Len(t, o.syncs, len(want))
		for i, s := range o.syncs {
			if s != want[i] {
				t.Errorf("sync %d: told of %+v, want %+v", i, s, want[i])
			}
		}
		if o.names[2] != "recover" || o.names[3] != "recover" {
			t.Errorf("told in the names of %v", o.names)
		}
		closeAll(t, l)
	})
}

// Long waits for a lock are reported once the call has released its locks.
// Abandoned waits are reported as well, short waits are not.
func TestOnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l, o := watched(t, d, SyncNever)
		mustAppend(t, l, "short\n")
		other := d.open(t, SyncNever)
		release, err := other.Hold(t.Context())
		require.NoError(t, err)
		ctx := context.WithValue(t.Context(), nameKey{}, "impatient")
		short, cancel := context.WithTimeout(ctx, LongWait)
		defer cancel()
		_, _, err = l.Append(short, Lines([]byte("no\n")))
		require.ErrorIs(t, err, ErrBusy)
		done := started(l, "long\n")
		time.Sleep(time.Second)
		release()
		require.NoError(t, <-done)
		require.Len(t, o.waits, 2)
		for i, want := range []struct {
			lock string
			took time.Duration
			err  error
		}{{"append", LongWait, ErrBusy}, {"append", time.Second, nil}} {
			got := o.waits[i]
			if got.Lock != want.lock || got.Took < want.took || got.Took > want.took+2*maxWait || !errors.Is(got.Err, want.err) {
				t.Errorf("told of %+v, want %+v", got, want)
			}
		}
		if o.names[0] != "impatient" || o.names[1] != nil {
			t.Errorf("told in the names of %v", o.names)
		}
		closeAll(t, l, other)
	})
}

// A sync that takes no time is reported with 1 ns.
func TestQuickSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newCacheDisk(t)
		l, o := watched(t, d, SyncAlways)
		mustAppend(t, l, "two\n")
		require.Equal(t, []Synced{{Took: 1, Bytes: int64(len("two\n"))}}, o.syncs)
		require.Empty(t, o.waits)
		closeAll(t, l)
	})
}

// Events are reported when the lock is free again.
func TestHoldTellsAfterRelease(t *testing.T) {
	d := newCacheDisk(t)
	l, o := watched(t, d, SyncAlways)
	f, err := d.root.OpenFile(workName, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(workTorn)
		err = errors.Join(err, f.Close())
	}
	require.NoError(t, err)
	other := d.open(t, SyncNever)
	o.then = func() { wantFree(t, other) }
	release, err := l.Hold(context.WithValue(t.Context(), nameKey{}, "holder"))
	require.NoError(t, err)
	require.Empty(t, o.names)
	release()
	if len(o.tails) != 1 || len(o.syncs) != 0 || o.names[0] != "holder" {
		t.Errorf("told of %+v and %+v in the names of %v", o.tails, o.syncs, o.names)
	}
	_ = wantInDoubt(t, d, l, "two\n")
	if err := l.Recover(t.Context()); err != nil || len(o.syncs) != 2 {
		t.Errorf("Recover = %v, told of %+v", err, o.syncs)
	}
	closeAll(t, l, other)
}

// An unreadable file reads at most one byte at a time.
type unreadable struct{ file }

func (f unreadable) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > 1 {
		return 0, errFault
	}
	return f.file.ReadAt(p, off)
}

// A tail that cannot be read back is ended and reported all the same.
func TestTailCannotBeRead(t *testing.T) {
	d := newCacheDisk(t)
	closeAll(t, d.create(t, SyncAlways))
	require.NoError(t, d.root.WriteFile(workName, []byte(workFirst+"{}"), 0o600))
	d.mutate = func(f file) file { return unreadable{f} }
	o := &told{then: func() {}}
	l, err := Open(d.root, workName, o.options(d, SyncNever))
	require.NoError(t, err)
	mustAppend(t, l, "next\n")
	end := int64(len(workFirst + "{}"))
	require.Equal(t, []Tail{{Offset: end, Err: errFault}}, o.tails)
	require.Equal(t, workFirst+"{}\nnext\n", d.inCache(t))
	closeAll(t, l)
}
