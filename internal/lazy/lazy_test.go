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
