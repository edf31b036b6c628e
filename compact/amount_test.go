package compact_test

import (
	"flag"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // most of the time goes to short-lived texts
	m.Run()
}

// go test ./compact samples the long histories. -soak=gate tries all of them,
// which .ci/run asks for.
var soak = flag.String("soak", "short", "how much the tests of long histories try: short, gate or long")

// amount is how far such a test goes.
func amount[T any](short, gate T) T {
	if *soak == "short" {
		return short
	}
	return gate
}
