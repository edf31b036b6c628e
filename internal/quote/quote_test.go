package quote_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/quote"
)

func TestLines(t *testing.T) {
	require.Equal(t, "a", quote.Rest("a"))
	require.Equal(t, "  ", quote.Lines(""))
	require.Equal(t, "  a\n  b\r\n  \r  \u2028  c\x1e  d", quote.Lines("a\nb\r\n\r\u2028c\x1ed"))
}

func TestBrackets(t *testing.T) {
	require.Equal(t, "a [b]\n(c)", quote.Brackets("a [b]\n(c)"))
	require.Equal(t, "  [a\nb\u2028  \u200b[c\r\n  \x1b[d\v  \u2800［e", quote.Brackets("[a\nb\u2028\u200b[c\r\n\x1b[d\v\u2800［e"))
}
