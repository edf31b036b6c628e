package turn_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
)

func TestValues(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	first, err := turn.SetValue(ctx, s, "step", json.RawMessage(`{"n":1}`), turn.NoValue)
	require.NoError(t, err)
	_, err = turn.SetValue(ctx, s, "step", json.RawMessage(`2`), turn.NoValue)
	require.ErrorIs(t, err, session.ErrConflict)
	next, err := turn.SetValue(ctx, s, "step", json.RawMessage(`2`), first)
	require.NoError(t, err)
	_, err = turn.SetValue(ctx, s, "step", json.RawMessage(`3`), first)
	require.ErrorIs(t, err, session.ErrConflict)
	_, err = turn.SetValue(ctx, s, "bad", json.RawMessage(`{`), "")
	require.Error(t, err)
	_, err = turn.SetValue(ctx, s, "large", json.RawMessage(`"`+strings.Repeat("x", 64<<10)+`"`), "")
	require.ErrorContains(t, err, "limit")
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	values, err := turn.Values(ctx, s)
	require.NoError(t, err)
	require.Len(t, values, 1)
	require.Equal(t, []string{next, "step", "2"}, []string{values[0].Entry, values[0].Name, string(values[0].Value)})
	_, err = turn.SetValue(ctx, s, "step", nil, next)
	require.NoError(t, err)
	values, err = turn.Values(ctx, s)
	require.NoError(t, err)
	require.Empty(t, values)
	require.NotContains(t, storetest.History(t, s), "step")

	// The next session of the key begins without any.
	require.NoError(t, storetest.ErrOf(turn.SetValue(ctx, s, "language", json.RawMessage(`"de"`), "")))
	require.ErrorContains(t, storetest.ErrOf(turn.SetValue(ctx, s, "\xff", json.RawMessage(`1`), "")), "UTF-8")
	s, err = st.Create(ctx, storetest.CLI, nil)
	require.NoError(t, err)
	values, err = turn.Values(ctx, s)
	require.NoError(t, err)
	require.Empty(t, values)
}

// SetValue keeps a listed value listed, and lists no other.
func TestValuesListed(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Values: map[string]json.RawMessage{"listed": json.RawMessage(`1`)}})
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, "listed", json.RawMessage(`2`), "")))
	require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, "other", json.RawMessage(`3`), "")))
	require.Equal(t, map[string]json.RawMessage{"listed": json.RawMessage(`2`)}, storetest.Info(t, s).Values)
}

// The limit is for all values together, and a value that is replaced does not count.
func TestValuesTogether(t *testing.T) {
	s := fresh(t)
	set := func(name string, size int) error {
		return storetest.ErrOf(turn.SetValue(t.Context(), s, name, json.RawMessage(strings.Repeat("1", size)), ""))
	}
	require.NoError(t, set("a", 40<<10))
	require.ErrorContains(t, set("b", 24<<10-1), "all values would have 65537 bytes, the limit is 65536")
	require.NoError(t, set("b", 24<<10-2))
	require.NoError(t, set("a", 40<<10))
	require.Error(t, set("a", 40<<10+1))
}
