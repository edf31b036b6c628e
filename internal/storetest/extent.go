package storetest

import (
	"flag"
	"testing"
)

// Faults is the flag that says how far the tests of crashes and faults go. Without it they
// sample what they can do. -faults=gate does what the gate asks for, in a minute or two;
// -faults=long tears every write at every byte, makes every kind of error and kills 1,000
// times, in some minutes.
var Faults = flag.String("faults", "short", "how many faults the crash tests make: short, gate or long")

// Soak is the flag that says how long the conversations of the soaks are. Without it they
// are short. -soak=gate has those that the gate asks for, in a minute or two; -soak=long
// has conversations of 10,000 turns: see CONTRIBUTING.md.
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
