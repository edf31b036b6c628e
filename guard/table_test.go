package guard

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every line of overflow.txt is one that its head explains, every expression
// compiles, and a rule has something to match and a kind that exists.
func TestTable(t *testing.T) {
	kinds := []Kind{NotOverflow, Tokens, TokensPlusOutput, Bytes, Item, Reasoning, RateLimit, StopReason, Silent}
	known := known()
	names := map[string]bool{}
	for _, r := range known.rules {
		require.NotNil(t, r.match, "rule %s", r.name)
		require.Contains(t, kinds, r.kind, "rule %s", r.name)
		for _, e := range []*expression{r.match, r.also, r.unless} {
			if e != nil {
				e.get()
			}
		}
		names[r.name] = true
	}
	for _, name := range []string{rateLimit, longText, mediaCount} {
		require.True(t, names[name], "the code asks for the rule %s", name)
	}
	for sort, lines := range known.sizes {
		for _, e := range lines {
			require.True(t, slices.ContainsFunc(e.get().SubexpNames(), func(s string) bool { return s != "" }), "%s: no size in %s", sort, e.lines)
		}
	}
	for _, e := range known.found {
		e.get()
	}
	require.Panics(t, func() { readTable("rul x tokens\n") })
	require.Panics(t, func() { readTable("match x\n") })
}
