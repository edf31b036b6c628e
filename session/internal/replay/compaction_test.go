package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// A compaction is measured when it is appended, and gets the state that is in force. One
// that would not keep the end of the history, or has not read the rest, fails.
func TestComplete(t *testing.T) {
	base := []string{"p1 user one two three", "a1 answer m . four five", "p2 user six", "a2 answer m . seven", "p3 user eight"}
	for name, test := range map[string]struct {
		more   []string
		c      transcript.Compaction
		before int // tokens
		after  int
		turns  int
		ok     bool
	}{
		"kept from a turn":        {nil, transcript.Compaction{FirstKept: "p2", CoversTo: "a1"}, 8, 3 + 5, 1, true},
		"kept from the last":      {nil, transcript.Compaction{FirstKept: "p3", CoversTo: "a2"}, 8, 1 + 5, 2, true},
		"covers too little":       {nil, transcript.Compaction{FirstKept: "p3", CoversTo: "a1"}, 0, 0, 0, false},
		"read what it covers not": {nil, transcript.Compaction{FirstKept: "p3", CoversTo: "a1", Read: []string{"p2", "a2"}}, 8, 1 + 5, 2, true},
		"covered alone":           {nil, transcript.Compaction{CoversTo: "a2"}, 8, 1 + 5, 2, true},
		"keeps nothing":           {nil, transcript.Compaction{FirstKept: "nowhere", CoversTo: "nowhere"}, 0, 0, 0, false},
		"parts an append":         {[]string{"b1 user x; b2 user y"}, transcript.Compaction{FirstKept: "b2", CoversTo: "p3"}, 10, 2 + 5, 3, true},
		"parts a call and its result": {
			[]string{"b1 answer m . x; c1 call b1 id", "p4 user z", "r1 result id y"},
			transcript.Compaction{FirstKept: "p4", CoversTo: "c1"},
			0, 0, 0, false,
		},
		"has read the result": {
			[]string{"b1 answer m . x; c1 call b1 id", "p4 user z", "r1 result id y"},
			transcript.Compaction{FirstKept: "p4", CoversTo: "c1", Read: []string{"r1"}},
			10, 1 + 5, 2, true,
		},
		"a hidden text is no part": {
			[]string{"h hide p2"}, transcript.Compaction{FirstKept: "p3", CoversTo: "a2"}, 7, 1 + 5, 1, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := textOf(t, append(base, test.more...)...)
			x.write("v value name 1")
			x.write("K: n note")
			r := x.begin(true)
			test.c.Summary = "a summary"
			note, prompt := transcript.Custom{Name: "note"}, transcript.Custom{Name: "other"}
			items, c, err := r.Complete([]transcript.Item{note, test.c, prompt})
			if !test.ok {
				require.ErrorIs(t, err, driver.ErrConflict)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []int{test.before, test.after, test.turns}, []int{c.TokensBefore, c.TokensAfter, c.TurnsBefore})
			require.Equal(t, []transcript.Item{note, *c, prompt}, items)
			require.Len(t, c.Standing, 2)
			require.Equal(t, "K", c.Standing[0].Idem)
			require.Equal(t, "v", c.Standing[1].ID)
		})
	}
	r := textOf(t, base...).begin(true)
	items := []transcript.Item{transcript.Custom{Name: "note"}}
	same, c, err := r.Complete(items)
	require.NoError(t, err)
	require.Nil(t, c)
	require.Equal(t, items, same)
}

// The prompt and the tools in force go before the compaction.
func TestCompletePrompts(t *testing.T) {
	x := textOf(t, "u1 user x", "u2 user y")
	x.add("", x.entry("p", transcript.System{Text: "be brief"}))
	x.write("u3 user z")
	items, c, err := x.begin(true).Complete([]transcript.Item{transcript.Compaction{Summary: "s", FirstKept: "u3", CoversTo: "u2"}})
	require.NoError(t, err)
	require.Equal(t, []transcript.Item{transcript.System{Text: "be brief"}, *c}, items)
}

// A cut of a planned history is still good if the part that it replaces, and the part
// that it keeps, are as they were.
func TestCuts(t *testing.T) {
	x := textOf(t, talk(1, 4)...)
	r := x.begin(true)
	planned := r.Fold.History()
	cut := compact.Cut{At: 4, FirstKept: "u3", CoversTo: "a2"}
	ok := func() []bool { return []bool{r.Keeps(cut), r.Replaces(cut, planned)} }
	require.Equal(t, []bool{true, true}, ok())
	x.write("u5 user more")
	x.on(r)
	require.Equal(t, []bool{true, true}, ok())
	x.write("h hide u4")
	x.on(r)
	require.Equal(t, []bool{true, true}, ok())
	x.write("i hide u1")
	x.on(r)
	require.Equal(t, []bool{true, false}, ok())
	x.write("j show u1")
	x.on(r)
	require.Equal(t, []bool{true, true}, ok())
	x.write("r rewind a1")
	x.on(r)
	require.Equal(t, []bool{false, false}, ok())
}

// Sizes are counted by the counter of the store, and by the trigger's.
func TestSize(t *testing.T) {
	x := textOf(t, "u1 user one two", "a1 answer m . three")
	r := replay.New(&replay.Options{Counter: words{}, Trigger: double{}})
	require.NoError(t, r.Begin(x.scan, row, true))
	stored, trigger := r.Size()
	require.Equal(t, []int{3, 6}, []int{stored, trigger})
	stored, trigger = x.begin(true).Size()
	require.Equal(t, []int{3, 3}, []int{stored, trigger})
	require.Equal(t, 3, x.row(x.begin(true)).TokenEstimate)
	require.Equal(t, 3, replay.CountHistory(words{}, r.Fold.History()))
}

type double struct{}

func (double) Count(system string, tools []transcript.Tool, messages []transcript.Message) int {
	return 2 * words{}.Count(system, tools, messages)
}

// The first message with a call that waits for a person, or was approved.
func TestFirstWaiting(t *testing.T) {
	base := []string{"u1 user x", "a1 answer m . y; c1 call a1 id1; c2 call a1 id2"}
	for name, test := range map[string]struct {
		more []string
		want int
	}{
		"not decided": {nil, 3},
		"held":        {[]string{"d decide c1 id1 hold"}, 1},
		"approved":    {[]string{"d decide c2 id2 approve"}, 1},
		"both":        {[]string{"d decide c1 id1 hold", "e decide c2 id2 reject"}, 1},
		"rejected":    {[]string{"d decide c1 id1 reject"}, 3},
		"dispatched":  {[]string{"d decide c1 id1 approve", "e dispatch c1 id1"}, 3},
		"done":        {[]string{"d decide c1 id1 approve", "r result id1 ok; s result id2 ok"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, replay.FirstWaiting(textOf(t, append(base, test.more...)...).begin(true).Fold))
		})
	}
}
