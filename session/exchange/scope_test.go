package exchange_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/exchange"
)

// Sessions that are imported into a scope are the owner's, a second import adds
// nothing, and another owner sees none of them.
func TestImportScope(t *testing.T) {
	for _, program := range []string{"mini-claw", "openviking", "zyhive", "pi"} {
		st := inMemory()
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		bert, err := st.Scope("bert")
		require.NoError(t, err)
		source := sessionsIn(t, os.DirFS(samples+program))
		n := 0
		for _, im := range importAll(t, ada, source, nil) {
			if im.Err == nil && im.Created {
				n++
			}
		}
		require.Positive(t, n, program)
		for _, im := range importAll(t, ada, source, nil) {
			require.False(t, im.Created, program)
			require.Zero(t, im.Appended, program)
		}
		infos, err := ada.List(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, infos, n, program)
		for _, info := range infos {
			require.Equal(t, "ada", info.Owner, program)
		}
		report, _ := exchange.Import(t.Context(), bert, source, nil) // its sessions have the IDs of ada's
		for _, im := range report {
			require.False(t, im.Created, program)
			require.Zero(t, im.Appended, program)
		}
		none, err := bert.List(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, none, program)
	}
}
