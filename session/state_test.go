package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
)

func TestState(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	first, err := s.SetState(ctx, "step", json.RawMessage(`{"n":1}`), session.NoHead)
	require.NoError(t, err)
	_, err = s.SetState(ctx, "step", json.RawMessage(`2`), session.NoHead)
	require.ErrorIs(t, err, session.ErrConflict)
	next, err := s.SetState(ctx, "step", json.RawMessage(`2`), first)
	require.NoError(t, err)
	_, err = s.SetState(ctx, "step", json.RawMessage(`3`), first)
	require.ErrorIs(t, err, session.ErrConflict)
	_, err = s.SetState(ctx, "bad", json.RawMessage(`{`), "")
	require.Error(t, err)
	_, err = s.SetState(ctx, "large", json.RawMessage(`"`+strings.Repeat("x", session.MaxState)+`"`), "")
	require.ErrorContains(t, err, "limit")
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	values, err := s.State(ctx)
	require.NoError(t, err)
	require.Len(t, values, 1)
	require.Equal(t, []string{next, "step", "2"}, []string{values[0].Entry, values[0].Name, string(values[0].Value)})
	_, err = s.SetState(ctx, "step", nil, next)
	require.NoError(t, err)
	values, err = s.State(ctx)
	require.NoError(t, err)
	require.Empty(t, values)
	require.NotContains(t, storetest.History(t, s), "step")

	// The values of the key go over to its next session.
	for _, name := range []string{"key/language", "other"} {
		require.NoError(t, storetest.ErrOf(s.SetState(ctx, name, json.RawMessage(`"de"`), "")))
	}
	s, err = st.Create(ctx, storetest.CLI, nil)
	require.NoError(t, err)
	values, err = s.State(ctx)
	require.NoError(t, err)
	require.Len(t, values, 1)
	require.Equal(t, "key/language", values[0].Name)
	require.NoError(t, storetest.ErrOf(s.SetState(ctx, "key/language", json.RawMessage(`"en"`), values[0].Entry)))
	require.ErrorContains(t, storetest.ErrOf(s.SetState(ctx, "\xff", json.RawMessage(`1`), "")), "UTF-8")
}
