package rebuild_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// An entry is live and not compacted exactly if the history is made of it, after any
// sequence of entries, and without the words of any.
func TestWhere(t *testing.T) {
	seen := map[rebuild.Where]int{}
	for seed := range uint64(rebuild.Amount(350, 1_000)) {
		r := rand.New(rand.NewPCG(seed, 11))
		data := make([]byte, r.IntN(400))
		for i := range data {
			data[i] = byte(r.IntN(256))
		}
		f, bare := rebuild.New(nil), rebuild.New(nil)
		var all []transcript.Entry
		for _, b := range script(data) {
			all = append(all, b.Entries...)
			require.NoError(t, f.Add(b))
			erased := transcript.Batch{Complete: b.Complete}
			for _, e := range b.Entries {
				erased.Entries = append(erased.Entries, e.Erase())
			}
			require.NoError(t, bare.Add(erased))
			if r.IntN(16) > 0 {
				continue
			}
			inForce := f.InForce()
			for i, id := range inForce {
				w, ok := f.Where(id)
				require.True(t, ok)
				shown := !w.Rewound && !w.Superseded && !w.Compacted
				require.True(t, shown || i == 0, "seed %d: %s is in force: %+v", seed, id, w) // the first one may be the last that is covered
			}
			for _, e := range all {
				w, ok := f.Where(e.ID)
				require.True(t, ok)
				seen[w]++
				again, _ := bare.Where(e.ID)
				require.Equal(t, w, again)
				switch e.Body.(type) {
				case transcript.MessageLine, transcript.Compaction:
					if !w.Rewound && !w.Superseded && !w.Compacted {
						require.True(t, slices.Contains(inForce, e.ID), "seed %d: %s is not in force: %+v", seed, e.ID, w)
					}
				}
			}
		}
	}
	require.Len(t, seen, 10, "rewound or superseded alone, and all of the other three: %v", seen)
	_, ok := rebuild.New(nil).Where("e1")
	require.False(t, ok)
}
