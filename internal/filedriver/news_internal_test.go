package filedriver

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// While the index takes no lines, the rows that it lacks are noted once, however many
// writers try.
func TestNewsAreNotedOnce(t *testing.T) {
	d, err := Open(t.TempDir(), nil)
	require.NoError(t, err)
	line := driver.Line{ID: "a", Data: []byte(`{"type":"session","id":"a","key":"k","gen":1}`)}
	_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(int64) (driver.Row, driver.Line) { return driver.Row{ID: "a"}, line })
	require.NoError(t, err)
	x := d.agents["main"].idx
	require.NoError(t, x.locked(t.Context(), func() error { return x.change("a") }))
	file := x.file
	x.file, err = os.Open(file.Name())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, x.hold(t.Context(), func() error { return nil }))
	}
	require.Len(t, x.news, 1)
	require.NoError(t, x.file.Close())
	x.file = file
	require.NoError(t, x.hold(t.Context(), func() error { return nil }))
	require.Empty(t, x.news)
	require.NoError(t, d.Close())
}
