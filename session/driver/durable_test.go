package driver_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// The text of a NotDurableError names the file or the service, and the way out.
func TestNotDurableError(t *testing.T) {
	cause := errors.New("cause")
	for want, err := range map[string]*driver.NotDurableError{
		"sync a.jsonl: bytes 0 to 9 are written":            {Path: "a.jsonl", End: 9, Err: cause},
		"write a.jsonl: nothing was written, because bytes": {Path: "a.jsonl", End: 9, Refused: true, Err: cause},
		"PostgreSQL went away before it answered (cause)":   {Path: "PostgreSQL", Err: cause},
	} {
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, cause)
	}
}
