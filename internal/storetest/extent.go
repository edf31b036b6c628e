package storetest

import (
	"flag"
	"testing"
)

// Faults is the flag for the extent of tests of crashes and faults. Without the flag they
// run a sample. -faults=gate runs the part for the gate, in a minute or two. -faults=long
// tears every write at every byte, makes every kind of error and kills 1,000 times, in some
// minutes.
var Faults = flag.String("faults", "short", "extent of the crash tests: short, gate or long")

// Soak is the flag for the length of conversations in soak tests. Without the flag they are
// short. -soak=gate runs the conversations for the gate, in a minute or two. -soak=long
// runs conversations of 10,000 turns: see CONTRIBUTING.md.
var Soak = flag.String("soak", "short", "length of conversations in soak tests: short, gate or long")

// Extent returns short, gate or long by the value of a flag: [Faults] or [Soak].
func Extent[T any](flag string, short, gate, long T) T {
	switch flag {
	case "long":
		return long
	case "gate":
		return gate
	}
	return short
}

// Few returns the number of samples for a test that starts no goroutines: n, or a fifth of
// n with -short or the race detector. The detector makes such a test many times slower and
// finds nothing in it.
func Few(n int) int {
	if Brief || testing.Short() {
		return max(n/5, 1)
	}
	return n
}

// SkipRace skips a test of one goroutine with the race detector. The detector makes such a
// test many times slower and finds nothing in it.
func SkipRace(t testing.TB) {
	t.Helper()
	if Brief {
		t.Skip("the test starts no goroutines, so it has no races")
	}
}
