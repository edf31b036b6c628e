package rebuild

import "flag"

var soak = flag.String("soak", "short", "how many histories the random tests try: short, gate or long")

// Amount is how far a test goes.
func Amount[T any](short, gate T) T {
	if *soak == "short" {
		return short
	}
	return gate
}
