package quote_test

import (
	"testing"

	"github.com/convolog/convolog/internal/quote"
)

func TestLines(t *testing.T) {
	equal(t, "a", quote.Rest("a"))
	equal(t, "  ", quote.Lines(""))
	equal(t, "  a\n  b\r\n  \r  \u2028  c\x1e  d", quote.Lines("a\nb\r\n\r\u2028c\x1ed"))
}

func TestBrackets(t *testing.T) {
	equal(t, "a [b]\n(c)", quote.Brackets("a [b]\n(c)"))
	const quoted = "  [a\nb\u2028  \u200b[c\r\n  \x1b[d\v  \u2800［e"
	equal(t, quoted, quote.Brackets("[a\nb\u2028\u200b[c\r\n\x1b[d\v\u2800［e"))
	equal(t, quoted, quote.Brackets(quoted))
	equal(t, "   [a", quote.Brackets(" [a"))
}

func equal(t *testing.T, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
