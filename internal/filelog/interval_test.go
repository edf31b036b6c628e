package filelog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

func TestSyncInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(faultDisk)
		w := newWorkload(t, d)
		var background []bool
		l, err := Create(w.root, workName, []byte(workFirst), &Options{
			Sync: SyncInterval(time.Second), seam: d.seam(),
			Observe: func(_ context.Context, e Event) {
				if s, ok := e.(Synced); ok {
					background = append(background, s.Background)
				}
			},
		})
		require.NoError(t, err)
		pass := func(wait time.Duration, syncs int32) {
			t.Helper()
			time.Sleep(wait) // in the bubble's time
			synctest.Wait()
			if n := d.syncs.Load(); n != syncs {
				t.Fatalf("%d syncs, want %d", n, syncs)
			}
		}
		add := func() {
			t.Helper()
			if _, _, err := l.Append(t.Context(), Lines([]byte("{}\n"))); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Hour, 1) // creating syncs; a clean log does not
		add()
		pass(500*time.Millisecond, 1)
		add() // does not put the sync off
		pass(499*time.Millisecond, 1)
		pass(time.Millisecond, 2)
		pass(time.Hour, 2)
		add()
		require.NoError(t, l.Flush(t.Context()))
		pass(time.Hour, 3) // the timer found nothing to do
		add()
		require.NoError(t, l.Close())
		pass(time.Hour, 4)
		require.Equal(t, []bool{true, false, false}, background, "the interval, Flush, Close")
		w.reopen(t)
	})
}

func TestSyncIntervalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faultDisk{failAt: 2, only: "sync"}
		w := newWorkload(t, d)
		l, err := Create(w.root, workName, []byte(workFirst), &Options{Sync: SyncInterval(time.Second), seam: d.seam()})
		require.NoError(t, err)
		start, _, err := l.Append(t.Context(), Lines([]byte("{}\n")))
		require.NoError(t, err)
		_, end, err := l.Append(t.Context(), Lines([]byte("{}\n")))
		require.NoError(t, err)
		require.Nil(t, l.Failed())
		time.Sleep(time.Second) // in the bubble's time
		synctest.Wait()
		failed := l.Failed()
		require.NotNil(t, failed)
		require.Equal(t, start, failed.Start)
		require.Equal(t, end, failed.End)
		_, _, err = l.Append(t.Context(), Lines([]byte("{}\n")))
		if e, ok := errors.AsType[*driver.NotDurableError](err); !ok || !e.Refused || e.Start != start || e.End != end {
			t.Errorf("the next append returned %v", err)
		}
		_, ok := errors.AsType[*driver.NotDurableError](l.Close())
		require.True(t, ok, "Close was fine")
		w.reopen(t)
	})
}

func TestSyncNever(t *testing.T) {
	d := new(faultDisk)
	w := newWorkload(t, d)
	l, err := Create(w.root, workName, []byte(workFirst), &Options{Sync: SyncNever, seam: d.seam()})
	require.NoError(t, err)
	_, _, err = l.Append(t.Context(), Lines([]byte("{}\n")))
	require.NoError(t, err)
	require.Zero(t, d.syncs.Load())
	if err := l.Flush(t.Context()); err != nil || d.syncs.Load() != 1 {
		t.Errorf("Flush = %v, %d syncs, want one", err, d.syncs.Load())
	}
	if err := l.Close(); err != nil || d.syncs.Load() != 1 {
		t.Errorf("Close = %v, %d syncs, want one", err, d.syncs.Load())
	}
	w.reopen(t)
}

// A Flush whose context is done syncs nothing, and fails.
func TestFlushGivesUp(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncInterval(1e18))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustAppend(t, l, "one\n")
	before := d.syncs
	require.ErrorIs(t, l.Flush(ctx), context.Canceled)
	require.Equal(t, before, d.syncs)
	require.True(t, l.Owes())
	require.NoError(t, l.Flush(t.Context()))
	closeAll(t, l)
}
