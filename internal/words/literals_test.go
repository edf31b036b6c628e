package words_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/words"
)

func TestLiterals(t *testing.T) {
	list := words.NewLiterals(`"clip"`, "recall_", "aa")
	for raw, want := range map[string]bool{
		"": false, "a": false, "aa": true, `{"type":"clip"}`: true, `{"type":"clips"}`: false, "x recall_": true,
		`{"type":"\u0063lip"}`: true, `{"a":"\u0007 \u2028"}`: false, `\u00`: false, `a\nb`: false,
	} {
		require.Equal(t, want, list.In([]byte(raw)), raw)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		random := func(n int) []byte {
			text := make([]byte, 1+r.IntN(n))
			for i := range text {
				text[i] = "ab"[r.IntN(2)]
			}
			return text
		}
		text, raw := random(12), random(60)
		require.Equal(t, bytes.Contains(raw, text), words.NewLiterals(string(text)).In(raw), fmt.Sprintf("%s in %s", text, raw))
	}
}
