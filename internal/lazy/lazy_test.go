package lazy_test

import (
	"slices"
	"sync"
	"testing"

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
	if first, again := re.Get(), re.Get(); first != again {
		t.Error("two expressions")
	}
}

// An invalid source costs nothing until it is used.
func TestRegexpBadSource(t *testing.T) {
	re := lazy.New(`(`)
	panics(t, func() { re.Get() })
}

// Alternatives are one expression, and its parts stay unchanged.
func TestRegexpOr(t *testing.T) {
	var none *lazy.Regexp
	a := none.Or(`^a$`)
	ab := a.Or(`^b$`)
	if !ab.Get().MatchString("a") || !ab.Get().MatchString("b") || a.Get().MatchString("b") {
		t.Errorf("%s, after Or %s", a.Get(), ab.Get())
	}
}

// Find agrees with the expression, and does not compile it for a text without its words.
func TestRegexpFind(t *testing.T) {
	texts := []string{"", "a", "abc", "ABC", "xbc", "the prompt is too long", "too many tokens", "prompt", "long", "12"}
	for _, source := range []string{`a|b`, `(?i)abc`, `\bprompt\b.*(long|large)`, `(a|x)bc`, `tokens?`, `\d+`, `(?:too )+(?:long|many)`, `(?:ab)*c`, `x?`, `(prompt){2}`, `[ab]c`} {
		re := lazy.New(source)
		for _, text := range texts {
			if want, got := re.Get().FindStringSubmatch(text), re.Find(text); !slices.Equal(got, want) {
				t.Errorf("%s in %q: got %q, want %q", source, text, got, want)
			}
		}
	}
	panics(t, func() { lazy.New(`(`).Find("(") })
}

func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}
