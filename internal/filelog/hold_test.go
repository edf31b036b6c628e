package filelog_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
)

// A held lock keeps out every other call, of the same Log and of others.
func TestHold(t *testing.T) {
	root, _ := folder(t)
	synctest.Test(t, func(t *testing.T) {
		l := create(t, root, "one\n", nil)
		other := open(t, root, nil)
		release, err := l.Hold(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		_, _, err = other.Append(ctx, filelog.Lines([]byte("x\n")))
		require.ErrorIs(t, err, filelog.ErrBusy)
		_, err = l.Hold(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()
		start, _, err := other.Append(t.Context(), filelog.Lines([]byte("two\n")))
		require.NoError(t, err)
		require.EqualValues(t, 4, start)
		release, err = l.Hold(t.Context())
		require.NoError(t, err)
		release()
	})
}
