package erase_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/erase"
)

// An owner that is not UTF-8 is refused: a line would have another one in its place.
func TestOwnerThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, storetest.Scratch(t), nil)
	defer storetest.Close(t, st)
	_, err := erase.Preview(t.Context(), st, erase.Erasure{Owner: "jos\xe9"})
	require.ErrorContains(t, err, `"jos\xe9" is not valid UTF-8`)
}
