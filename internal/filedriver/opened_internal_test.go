package filedriver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A transcript that is read keeps its own size, even if the driver has opened another one
// of its name since.
func TestSizeOfAReplacedTranscript(t *testing.T) {
	d, err := Open(t.TempDir(), nil)
	require.NoError(t, err)
	line := driver.Line{ID: "a", Data: []byte(`{"type":"session","id":"a","key":"k","gen":1}`)}
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(int64) (driver.Row, driver.Line) { return driver.Row{ID: "a"}, line })
	require.NoError(t, err)
	a := d.agents["main"]
	f, err := a.stat("a")
	require.NoError(t, err)
	o, err := a.open(f)
	require.NoError(t, err)

	path := d.Path(row.Ref())
	shorter := filepath.Join(t.TempDir(), "shorter")
	require.NoError(t, os.WriteFile(shorter, []byte(`{"type":"session","id":"a"}`+"\n"), 0o600))
	require.NoError(t, os.Rename(shorter, path))
	require.ErrorIs(t, d.Flush(t.Context(), row.Ref(), false), driver.ErrReplaced)
	require.NoError(t, d.Flush(t.Context(), row.Ref(), false)) // the new one is open now

	size, ok, err := o.TrySize()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, f.size, size)
	o.close()
	require.NoError(t, d.Close())
}
