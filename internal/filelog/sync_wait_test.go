package filelog

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// recoverWaits recovers l, which must wait as long as another Log is syncing.
func recoverWaits(t *testing.T, d *cacheDisk, l, other *Log) {
	t.Helper()
	syncing, err := other.file().Lock(syncLock, true)
	require.NoError(t, err)
	require.True(t, syncing)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.setOp(func(op string) error {
		if op == "sync lock is held" {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, l.Recover(ctx), ErrBusy)
	require.NoError(t, other.file().Unlock(syncLock))
	require.NoError(t, l.Recover(t.Context()))
}

// Recover of a Log that has not failed says that all of the file is on stable
// storage: it waits for a sync of another process that may be failing.
func TestRecoverWaitsForASync(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, driver.SyncAlways)
	next := d.open(t, driver.SyncAlways)
	recoverWaits(t, d, next, l)
	closeAll(t, l, next)
}

// Readers settle under locks of their own, so Settle waits for no sync of others.
func TestSettleWaitsForNoSync(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, driver.SyncAlways)
	next := d.open(t, driver.SyncAlways)
	syncing, err := l.file().Lock(syncLock, true)
	require.NoError(t, err)
	require.True(t, syncing)
	d.setOp(func(op string) error {
		require.NotEqual(t, "sync lock is held", op)
		return nil
	})
	_, err = next.Settle(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.file().Unlock(syncLock))
	closeAll(t, l, next)
}
