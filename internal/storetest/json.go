package storetest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// JSON returns v as JSON.
func JSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
