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

// go test ./compact samples the long histories. -soak=gate, as in .ci/run,
// tries all of them.
var soak = flag.String("soak", "short", "how much the tests of long histories try: short, gate or long")

// amount is the extent of such a test.
func amount[T any](short, gate T) T {
	if *soak == "short" {
		return short
	}
	return gate
}
