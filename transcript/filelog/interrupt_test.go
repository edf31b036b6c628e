package filelog

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Interrupt ends all waits for a lock, and nothing else.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(t, new(faultDisk))
		l, err := Create(w.root, workName, []byte(workFirst), nil)
		require.NoError(t, err)
		held, err := l.Hold(t.Context())
		require.NoError(t, err)
		release, err := l.LockTurn(t.Context())
		require.NoError(t, err)
		waits := make(chan error)
		go func() {
			_, _, err := l.Append(t.Context(), []byte("{}\n"), nil)
			waits <- err
		}()
		go func() {
			_, err := l.LockTurn(t.Context())
			waits <- err
		}()
		synctest.Wait()
		l.Interrupt()
		for range 2 {
			if err := <-waits; !errors.Is(err, ErrClosed) {
				t.Errorf("a call that waited returned %v", err)
			}
		}
		if err := held.Append([]byte("{}\n")); err != nil {
			t.Error(err)
		}
		if _, err := l.LockTurn(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("a call that would have to wait returned %v", err)
		}
		held.Release()
		if err := release(); err != nil {
			t.Error(err)
		}
		if _, _, err := l.Append(t.Context(), []byte("{}\n"), nil); err != nil {
			t.Errorf("a call that need not wait returned %v", err)
		}
		l.Interrupt()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		w.reopen(t)
	})
}
