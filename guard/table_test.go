package guard

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every line of overflow.txt is one that its head explains, every expression
// compiles, and a rule has something to match and a kind that exists.
func TestTable(t *testing.T) {
	kinds := []Kind{NotOverflow, Tokens, TokensPlusOutput, Bytes, Messages, Part, RateLimit, StopReason, Silent}
	known := known()
	names := map[string]bool{}
	for _, r := range known.rules {
		require.True(t, len(r.match) > 0 || len(r.signs) > 0, "rule %s", r.name)
		require.Contains(t, kinds, r.kind, "rule %s", r.name)
		for _, p := range slices.Concat(r.match, r.also, r.unless) {
			p.Get()
		}
		names[r.name] = true
		known := isStaged(Overflow{Refused: r.refused}) || isMedium(Overflow{Refused: r.refused}) || r.refused == "reasoning" || without[r.refused] != nil
		require.Equal(t, r.kind == Part, known, "rule %s refuses %q", r.name, r.refused)
	}
	for _, name := range []string{rateLimit, planWindow, manySides} {
		require.True(t, names[name], "the code asks for the rule %s", name)
	}
	for sort, lines := range known.sizes {
		for _, p := range lines {
			require.True(t, slices.ContainsFunc(p.Get().SubexpNames(), func(s string) bool { return s != "" }), "%s: no size in %s", sort, p.Get())
		}
	}
	for _, e := range known.found {
		e.Get()
	}
	require.Panics(t, func() { readTable("rul x tokens\n") })
	require.Panics(t, func() { readTable("match x\n") })
}
