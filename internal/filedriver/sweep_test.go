package filedriver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// When a session of the library itself is deleted, as an erase does at its end, the
// leftovers of killed processes are removed for all agents, even agents without a changed
// session.
func TestDeleteOfTheLibraryLeavesNoWord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/other"), nil, 0o600))
	half(t, dir)
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "_erase", Key: "k"}, header("plan", "k"))
	require.NoError(t, err)
	require.NotEmpty(t, wordsIn(t, dir))

	inTheWay := d.Path(driver.Ref{Agent: "main", ID: "x"}) + ".tmp-0123456789abcdef"
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	require.ErrorContains(t, d.Delete(t.Context(), driver.Anywhere, row.Ref()), "not a regular file")
	_, err = d.Get(t.Context(), row.Ref())
	require.NoError(t, err, "the erase has not ended")
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, row.Ref()))
	require.Empty(t, wordsIn(t, dir))
}
