package lazy_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/lazy"
)

// All goroutines get one and the same expression.
func TestRegexp(t *testing.T) {
	re := lazy.New(`^a+$`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if !re.Get().MatchString("aa") || re.Get().MatchString("b") {
				t.Error("not the expression of the source")
			}
		})
	}
	wg.Wait()
	require.Same(t, re.Get(), re.Get())
}

// An invalid source costs nothing until it is used.
func TestRegexpBadSource(t *testing.T) {
	re := lazy.New(`(`)
	require.Panics(t, func() { re.Get() })
}

// Alternatives are one expression, and its parts stay unchanged.
func TestRegexpOr(t *testing.T) {
	var none *lazy.Regexp
	a := none.Or(`^a$`)
	ab := a.Or(`^b$`)
	require.True(t, ab.Get().MatchString("a"))
	require.True(t, ab.Get().MatchString("b"))
	require.False(t, a.Get().MatchString("b"))
}

// Find agrees with the expression, and does not compile it for a text without its words.
func TestRegexpFind(t *testing.T) {
	texts := []string{"", "a", "abc", "ABC", "xbc", "the prompt is too long", "too many tokens", "prompt", "long", "12"}
	for _, source := range []string{`a|b`, `(?i)abc`, `\bprompt\b.*(long|large)`, `(a|x)bc`, `tokens?`, `\d+`, `(?:too )+(?:long|many)`, `(?:ab)*c`, `x?`, `(prompt){2}`, `[ab]c`} {
		re := lazy.New(source)
		for _, text := range texts {
			require.Equal(t, re.Get().FindStringSubmatch(text), re.Find(text), "%s in %q", source, text)
		}
	}
	require.Panics(t, func() { lazy.New(`(`).Find("(") })
}
