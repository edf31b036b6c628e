package tokens_test

import (
	"math"
	"testing"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript/tokens"
)

// perCut is the most tokens that a cut in a text adds or removes: the word
// there becomes two, and seven letters, three consonants and the change from
// capitals get other weights.
const perCut = 10

func FuzzText(f *testing.F) {
	for _, text := range []string{
		"Hello, 世界! Привет 12,345 👍🏽 é é ｆｕｌｌ\n\tdone\U00020000\uE000⠿\u200b", "  \n\n\t x", "HTTPServer's don't", "((a", "\xff\xfe",
		"aaaaaaaaaaaaaaaaaaaaaaaaa", "xkcdstrngth", " 1  2\t3", "中A'", "----====\r\n//", "“q”—b",
	} {
		for i := range text {
			f.Add(text[:i], text[i:], byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, a, b string, family byte) {
		e := tokens.Estimator{Family: tokens.Family(family)}
		na, nb, n := e.Text(a), e.Text(b), e.Text(a+b)
		for text, n := range map[string]int{a: na, b: nb, a + b: n} {
			if n < 0 || n == 0 && text != "" || n > 4*len(text)+perCut {
				t.Errorf("%q is %d tokens", text, n)
			}
		}
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		if n > na+nb+perCut || na+nb > n+perCut {
			t.Errorf("%q is %d tokens, %q %d, both together %d", a, na, b, nb, n)
		}
		if n < max(na, nb)-perCut {
			t.Errorf("%q%q is %d tokens, less than a part of it, %d and %d", a, b, n, na, nb)
		}
		double := e
		double.Factor = 2
		if n2 := double.Text(a + b); math.Abs(float64(n2-2*n)) > 2 {
			t.Errorf("twice %d is %d", n, n2)
		}
	})
}
