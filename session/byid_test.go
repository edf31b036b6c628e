package session_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A web backend keeps conversations by ID, without a key and an agent.
func TestConversationsByID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	ctx := t.Context()
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	one := storetest.Create(t, ada, session.Key{}, nil)
	storetest.Add(t, one, transcript.UserText("one"))
	two := storetest.Create(t, ada, session.Key{}, &session.CreateOptions{ID: "two"})
	require.Equal(t, session.Ref{Agent: "main", ID: "two"}, two.Ref())
	info := storetest.Info(t, two)
	require.Equal(t, "main::two", info.Key)
	key, err := session.ParseKey(info.Key)
	require.NoError(t, err)
	_, err = ada.Load(ctx, key)
	require.ErrorIs(t, err, session.ErrKey)
	require.NoError(t, two.MakeCurrent(ctx))
	storetest.Close(t, st)

	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	ada, err = st.Scope("ada")
	require.NoError(t, err)
	got, err := ada.Get(ctx, session.Ref{ID: one.Ref().ID})
	require.NoError(t, err)
	h, err := got.History(ctx)
	require.NoError(t, err)
	require.Equal(t, "one", h.Messages[0].Text())
	infos := storetest.List(t, ada, nil)
	require.Len(t, infos, 2)

	other, err := st.Scope("bert")
	require.NoError(t, err)
	_, err = other.Get(ctx, session.Ref{ID: "two"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, other.Delete(ctx, session.Ref{ID: "two"}), fs.ErrNotExist)
	require.NoError(t, ada.SetState(ctx, session.Ref{ID: "two"}, session.Archived, -1))
	require.NoError(t, ada.SetState(ctx, session.Ref{ID: "two"}, session.Live, -1))
	require.NoError(t, ada.Delete(ctx, session.Ref{ID: "two"}))
	_, err = ada.Get(ctx, session.Ref{ID: "two"})
	require.ErrorIs(t, err, fs.ErrNotExist)
}
