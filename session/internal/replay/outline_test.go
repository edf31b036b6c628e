package replay_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// An outline finds the places of entries as a fold of whole lines does, with damage and
// without, read at once or in pieces.
func TestOutline(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		x := textOf(t)
		x.sums = seed%3 > 0
		l := &lines{rnd: rnd, x: x, all: []string{"s"}}
		var o replay.Outline
		for range 600 { // so that the lines are read in several parts
			batch := l.batch()
			if rnd.IntN(4) == 0 {
				batch = fmt.Sprintf("K%d: %s", rnd.IntN(3), batch)
			}
			res, _ := x.write(batch)
			if rnd.IntN(40) == 0 {
				x.data[int(res.Start)+rnd.IntN(int(res.End-res.Start)-1)] ^= 1
			}
			if rnd.IntN(40) == 0 {
				x.data = append(x.data, "damage\n"...)
			}
			if rnd.IntN(60) > 0 {
				continue
			}
			got, err := o.Places(x.sift, l.all)
			require.NoError(t, err)
			want, _ := replay.PlacesIn(x.begin(true).Fold, l.all)
			require.Equal(t, want, got, "seed %d\n%s", seed, x.data)
		}
	}
}

// An outline reads what was added, and all lines again if its last one is not there.
func TestOutlineReadsOn(t *testing.T) {
	x := textOf(t, talk(1, 20)...)
	var o replay.Outline
	places := func(want rebuild.Where) {
		t.Helper()
		got, err := o.Places(x.sift, []string{"u20"})
		require.NoError(t, err)
		require.Equal(t, map[string]rebuild.Where{"u20": want}, got)
	}
	places(rebuild.Where{})
	x.write("r rewind a19")
	x.records = 0
	places(rebuild.Where{Rewound: true})
	require.LessOrEqual(t, x.records, 2)
	other := textOf(t, talk(1, 19)...)
	other.write("u20 user another")
	other.write("h hide u20")
	*x = *other
	places(rebuild.Where{Hidden: true})
	fails := func(driver.Keep) iter.Seq2[transcript.Record, error] {
		return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, errScan) }
	}
	_, err := o.Places(fails, nil)
	require.ErrorIs(t, err, errScan)
	places(rebuild.Where{Hidden: true})
}

func TestPins(t *testing.T) {
	pins := []transcript.Carried{{Entry: "a"}, {Entry: "b"}, {Entry: "c"}, {Entry: "d"}}
	require.Equal(t, []string{"a", "b", "c", "d"}, replay.EntriesOf(pins))
	where := map[string]rebuild.Where{"a": {}, "b": {Rewound: true}, "c": {Hidden: true}}
	require.Equal(t, []transcript.Carried{{Entry: "a"}, {Entry: "d"}}, replay.InForce(pins, where))
	_, all := replay.PlacesIn(textOf(t, "a user x").begin(true).Fold, []string{"a", "b"})
	require.False(t, all)
}
