package storetest

import (
	"flag"
	"testing"
)

// Faults is the flag for the extent of the tests of crashes and faults. Without it they
// run a sample. -faults=gate runs the part for the gate, in a minute or two; -faults=long
// tears every write at every byte, makes every kind of error and kills 1,000 times, in
// some minutes.
var Faults = flag.String("faults", "short", "how many faults the crash tests make: short, gate or long")

// Soak is the flag for the length of the conversations of the soaks. Without it they are
// short. -soak=gate runs the ones for the gate, in a minute or two; -soak=long has
// conversations of 10,000 turns: see CONTRIBUTING.md.
var Soak = flag.String("soak", "short", "how long the conversations of the soaks are: short, gate or long")

// Extent is how far a test goes, by the value of its flag: [Faults] or [Soak].
func Extent[T any](flag string, short, gate, long T) T {
	switch flag {
	case "long":
		return long
	case "gate":
		return gate
	}
	return short
}

// Few is how many of n samples a test takes that starts no goroutines: with the race
// detector, which makes them many times slower and finds nothing in them, a fifth.
func Few(n int) int {
	if Brief {
		return max(n/5, 1)
	}
	return n
}

// SkipRace skips a test of one goroutine with the race detector, which makes it many times
// slower and has nothing to find in it.
func SkipRace(t testing.TB) {
	t.Helper()
	if Brief {
		t.Skip("the test starts no goroutines, so it has no races")
	}
}
