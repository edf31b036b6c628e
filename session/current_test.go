package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
)

func TestMakeCurrent(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	a := storetest.Load(t, st, storetest.CLI)
	b := storetest.Create(t, st, storetest.CLI, nil)
	if !storetest.Info(t, b).Current || storetest.Info(t, a).Current {
		t.Error("the session created last is not the current one")
	}
	require.NoError(t, a.MakeCurrent(t.Context()))
	require.NoError(t, a.MakeCurrent(t.Context())) // it is already
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	if s.Ref().ID != a.Ref().ID || !storetest.Info(t, s).Current {
		t.Errorf("after the index was lost the current session is %s, want %s", s.Ref().ID, a.Ref().ID)
	}
	currents := 0
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if e.Type() == "current" {
			currents++
		}
	}
	require.Equal(t, 1, currents)
	c := storetest.Create(t, st, storetest.CLI, nil)
	require.Equal(t, c.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
}

// Info shows at once that another process has made another session current.
func TestInfoOfASessionThatIsNoLongerCurrent(t *testing.T) {
	dir := t.TempDir()
	st, other := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	require.True(t, storetest.Info(t, s).Current)
	_ = storetest.Create(t, other, storetest.CLI, nil)
	require.False(t, storetest.Info(t, s).Current)
}
