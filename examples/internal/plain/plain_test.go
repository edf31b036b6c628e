package plain_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/transcript"
)

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		used, window int
		line, bar    string
	}{
		{1234, 180_000, "~1,234 / 180,000", "[------------------------------] 0.7%"},
		{0, 100, "~0 / 100", "[------------------------------] 0.0%"},
		{50, 100, "~50 / 100", "[###############---------------] 50.0%"},
		{1_234_567, 1_000_000, "~1,234,567 / 1,000,000", "[##############################] 123.5%"},
		{5, 0, "~5 / 0", "[##############################] 500.0%"},
	} {
		require.Equal(t, "  Context usage: "+tt.line+" tokens\n  "+tt.bar+"\n", plain.Usage(tt.used, tt.window))
	}
}

// Texts of a model neither control the terminal nor fill it.
func TestHostileTexts(t *testing.T) {
	var out bytes.Buffer
	fmt.Fprint(plain.Writer{Writer: &out}, "a\x1b[31mb\r\u009b2Jc\td \u202e👩‍👩‍👧\x9b\n")
	require.Equal(t, "a[31mb2Jc\td 👩‍👩‍👧\uFFFD\n", out.String())
	m := transcript.UserText("日本\n語 " + string(bytes.Repeat([]byte("x"), 300)))
	require.Equal(t, "  [user] 日本 語 "+string(bytes.Repeat([]byte("x"), 195))+"...\n", plain.Message(m))
}

// A number of turns is not negative.
func TestTurns(t *testing.T) {
	for arg, want := range map[string]int{"": 1, "0": 0, "12": 12, "x": -1, "-3": -1, "99999999999999999999": -1} {
		n, err := plain.Turns(arg)
		if want < 0 {
			require.EqualError(t, err, fmt.Sprintf("%q is not a number of turns", arg))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
}
