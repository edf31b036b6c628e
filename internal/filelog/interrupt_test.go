package filelog

import (
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
		release, err := l.Hold(t.Context())
		require.NoError(t, err)
		waits := make(chan error)
		go func() {
			_, _, err := l.Append(t.Context(), Lines([]byte("{}\n")))
			waits <- err
		}()
		synctest.Wait()
		l.Interrupt()
		require.ErrorIs(t, <-waits, ErrClosed, "a call that waited")
		_, err = l.Settle(t.Context())
		require.ErrorIs(t, err, ErrClosed, "a call that would have to wait")
		release()
		mustAppend(t, l, "{}\n") // need not wait
		l.Interrupt()
		require.NoError(t, l.Close())
		w.reopen(t)
	})
}
