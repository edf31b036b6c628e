package turn_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A fork takes over the pins and values of its base, despite compactions and
// rewinds in between, and none of its queued texts and drafts. A fork of a fork
// does the same.
func TestForkStandingAtRandom(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	for seed := range storetest.Extent(*storetest.Faults, 6, 100, 1000) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		s, err := st.Create(t.Context(), storetest.CLI, nil)
		require.NoError(t, err)
		for n := range 3 {
			ids := standAtRandom(t, s, rnd, 30)
			id := ids[rnd.IntN(len(ids))]
			want := storetest.WantFork(t, s, id)
			fork, err := s.Fork(t.Context(), id, nil)
			require.NoError(t, err)
			where := fmt.Sprintf("seed %d, fork %d", seed, n)
			whole := storetest.CompareWithWhole(t, where, fork, rebuild.SummaryUser)
			require.Equal(t, storetest.Encoded(t, want.History()), storetest.Encoded(t, whole.History()), where)
			require.Equal(t, standingText(t, inForce(want)), standingText(t, whole.Standing()), where)
			require.Empty(t, whole.Standing().Queued, where)
			require.Empty(t, whole.Standing().Draft, where)
			s = fork
		}
	}
}

// inForce is the state of a base, without the pins of rewound entries, which a
// fork does not copy.
func inForce(f *rebuild.Fold) rebuild.Standing {
	s := f.Standing()
	s.Pins = slices.DeleteFunc(slices.Clone(s.Pins), func(p transcript.Carried) bool { return f.Has(p.Entry) && !f.Live(p.Entry) })
	return s
}

// standingText is the state that must be the same in a fork, in any order.
func standingText(t *testing.T, s rebuild.Standing) string {
	t.Helper()
	var all []string
	for _, p := range s.Pins {
		all = append(all, "pin "+p.Entry+" "+p.Text)
	}
	for _, v := range s.Values {
		all = append(all, "value "+v.Name+" "+string(v.Value))
	}
	slices.Sort(all)
	return fmt.Sprintf("%q", all)
}

// standAtRandom sets and unsets standing things, between turns, compactions and
// rewinds. It returns the IDs of entries of the session.
func standAtRandom(t *testing.T, s *session.Session, rnd *rand.Rand, steps int) []string {
	t.Helper()
	ctx := t.Context()
	pick := func() string { ids := storetest.EntryIDs(t, s); return ids[rnd.IntN(len(ids))] }
	for n := range steps {
		switch rnd.IntN(12) {
		case 0, 1, 2, 3:
			storetest.Talk(t, s, n, 1)
		case 4:
			_ = turn.Pin(ctx, s, pick()) // many have no text
		case 5:
			require.NoError(t, turn.Unpin(ctx, s, pick()))
		case 6, 7:
			value := []json.RawMessage{nil, fmt.Append(nil, n)}[rnd.IntN(2)]
			require.NoError(t, storetest.ErrOf(turn.SetValue(ctx, s, fmt.Sprint("v", rnd.IntN(3)), value, "")))
		case 8:
			require.NoError(t, storetest.ErrOf(turn.Queue(ctx, s, transcript.UserText(fmt.Sprint("queued ", n)))))
		case 9:
			tn, err := turn.Begin(ctx, s)
			require.NoError(t, err)
			if rnd.IntN(2) == 0 {
				require.NoError(t, storetest.ErrOf(turn.Drain(ctx, s, 0)))
			}
			d := tn.Draft("anthropic", "m", transcript.Made{})
			require.NoError(t, d.Write(ctx, fmt.Sprint("drafted ", n)))
			require.NoError(t, d.Flush(ctx))
			require.NoError(t, tn.End())
		case 10:
			_, _ = s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1 + rnd.IntN(2)}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
		case 11:
			switch rnd.IntN(3) {
			case 0:
				require.NoError(t, s.Rewind(ctx, pick()))
			case 1:
				storetest.Add(t, s, transcript.UserText("in one append"), transcript.Queued{Content: []transcript.Block{transcript.TextBlock{Text: "with it"}}},
					transcript.Value{Name: "v1", Value: json.RawMessage(`"mixed"`)})
			default:
				storetest.Add(t, s, storetest.Answer("", fmt.Sprint("call", n)))
			}
		}
	}
	return storetest.EntryIDs(t, s)
}
