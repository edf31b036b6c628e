package session_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A session is archived or deleted at the place that the caller has seen, or not at all.
func TestAt(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("one"))
		seen := storetest.Info(t, s).End
		storetest.Add(t, s, transcript.UserText("two"))
		require.ErrorIs(t, st.DeleteAt(ctx, s.Ref(), seen), session.ErrConflict)
		require.ErrorIs(t, st.DeleteAt(ctx, s.Ref(), -1), session.ErrConflict)
		require.ErrorIs(t, st.SetState(ctx, s.Ref(), session.Archived, seen), session.ErrConflict)
		seen = storetest.Info(t, s).End
		require.NoError(t, s.View(ctx, func(v *session.View) error {
			require.Equal(t, v.End(), seen)
			return nil
		}))
		unlock, err := s.LockTurn(ctx, true)
		require.NoError(t, err)
		for _, err := range []error{st.DeleteAt(ctx, s.Ref(), seen), st.SetState(ctx, s.Ref(), session.Archived, seen)} {
			require.ErrorIs(t, err, session.ErrConflict)
			require.ErrorIs(t, err, session.ErrBusy)
		}
		require.NoError(t, unlock())
		require.ErrorIs(t, st.SetState(ctx, s.Ref(), session.Expired, seen), fs.ErrInvalid)
		require.Contains(t, storetest.History(t, s), "two")
		require.Equal(t, session.Live, storetest.Info(t, s).State)

		require.NoError(t, st.SetState(ctx, s.Ref(), session.Archived, seen))
		require.Equal(t, session.Archived, storetest.Info(t, s).State)
		require.Equal(t, seen, storetest.Info(t, s).End)
		require.NoError(t, st.DeleteAt(ctx, s.Ref(), seen))
		require.ErrorIs(t, st.DeleteAt(ctx, s.Ref(), seen), fs.ErrNotExist)
		_, err = st.Get(ctx, s.Ref())
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}
