package session_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// lookups counts the calls that look the current session up.
type lookups struct {
	driver.Driver
	n int
}

func (d *lookups) Load(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line)) (driver.Row, error) {
	if header == nil {
		d.n++
	}
	return d.Driver.Load(ctx, key, header)
}

// Info asks the index for the current session only after a call of this process
// that may have found or made another one current.
func TestInfoLooksCurrentUpOnce(t *testing.T) {
	mem := memdriver.New(nil)
	d := &lookups{Driver: mem}
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	first := storetest.Load(t, st, storetest.CLI)
	for range 5 {
		storetest.Add(t, first, transcript.UserText("hi"))
		require.True(t, storetest.Info(t, first).Current)
	}
	require.Equal(t, 1, d.n)
	second, err := st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	require.False(t, storetest.Info(t, first).Current)
	require.True(t, storetest.Info(t, second).Current)
	require.NoError(t, first.MakeCurrent(t.Context()))
	require.True(t, storetest.Info(t, first).Current)
	require.False(t, storetest.Info(t, second).Current)
	require.NoError(t, st.Delete(t.Context(), first.Ref()))
	require.True(t, storetest.Info(t, second).Current)

	other := session.OpenDriver(memdriver.Reopen(mem), nil)
	defer storetest.Close(t, other)
	third, err := other.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	require.Equal(t, third.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
	require.False(t, storetest.Info(t, second).Current, "after a call has found the session of another process")
}

func TestMakeCurrent(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	a := storetest.Load(t, st, storetest.CLI)
	b, err := st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
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
	c, err := st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	require.Equal(t, c.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
}
