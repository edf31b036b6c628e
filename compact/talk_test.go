package compact_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A talk is a conversation at one of its compactions.
type talk struct {
	n, turns      int // compactions and turns so far
	size, left    int // tokens of the history before and after this one
	before, after rebuild.History
	cut           compact.Cut
	made          transcript.Compaction
}

// converse adds the turns of next to a conversation, compacts it in a window whenever that is due,
// and calls each after every compaction, until each returns false.
func converse(t *testing.T, window int, opts compact.Options, next func() []transcript.Item, each func(talk) bool) {
	t.Helper()
	opts.Trigger = compact.Trigger{Window: window, Overhead: 2_000}
	opts.Room = opts.Trigger.Room()
	f, tally := rebuild.New(nil), &rebuild.Tally{Counter: estimate}
	for i, now := 0, (talk{}); ; i++ {
		for j, item := range next() {
			add(t, f, fmt.Sprintf("t%d.%d", i, j), item)
		}
		now.size = tally.Count(f)
		if now.size <= opts.Room {
			continue
		}
		now.n++
		now.turns, now.before = f.Turns(), f.History()
		now.cut = compact.Plan(now.before, &opts)
		var err error
		now.made, err = compact.Run(t.Context(), now.before, now.cut, &opts)
		require.NoError(t, err, "compaction %d", now.n)
		add(t, f, fmt.Sprint("compaction", now.n), now.made)
		now.after, now.left = f.History(), tally.Count(f)
		if !each(now) {
			return
		}
	}
}
