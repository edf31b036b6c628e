package ahead

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A loop that ends early has had the first results in order, has taken no further value
// once 256 KiB of them were ahead, and leaves nobody at work.
func TestMapEndsEarly(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sizes := make([]int, rnd.IntN(1500))
		for i := range sizes {
			sizes[i] = []int{0, rnd.IntN(100), rnd.IntN(groupBytes), rnd.IntN(3 * groups * groupBytes)}[rnd.IntN(4)]
		}
		var atWork atomic.Int64
		given, ahead := 0, 0 // ahead: bytes
		in := func(yield func(int, error) bool) {
			for i, n := range sizes {
				require.Less(t, ahead, groups*groupBytes, "seed %d", seed)
				ahead += n
				if !yield(i, nil) {
					return
				}
			}
		}
		do := func(out []int, i int) []int {
			atWork.Add(1)
			defer atWork.Add(-1)
			return append(out, i)
		}
		end := rnd.IntN(len(sizes) + 1)
		for i, err := range Map(in, 1+rnd.IntN(Most), func(i int) int { return sizes[i] }, do) {
			require.NoError(t, err)
			require.Equal(t, given, i, "seed %d", seed)
			given++
			ahead -= sizes[i]
			if i == end {
				break
			}
		}
		require.Zero(t, atWork.Load(), "seed %d", seed)
		require.Equal(t, min(end+1, len(sizes)), given, "seed %d", seed)
	}
}
