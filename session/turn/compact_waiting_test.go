package turn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A call that waits for a person stays pending through compactions, and can be
// approved and started after them. Only a request that has no room otherwise lets
// it be summarised.
func TestCompactSparesWaitingCalls(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		ctx := t.Context()
		state := func() string {
			p, err := s.Pending(ctx)
			require.NoError(t, err)
			return fmt.Sprint(len(p.Calls), p.Calls)
		}
		opts := &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))}
		storetest.Talk(t, s, 0, 6)
		storetest.Add(t, s, transcript.UserText("delete it"), storetest.Answer("", "d"))
		require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "d"), transcript.Hold, "policy", ""))
		storetest.Talk(t, s, 6, 6)
		for _, want := range []rebuild.CallState{rebuild.Held, rebuild.Approved} {
			done, err := s.Compact(ctx, opts)
			require.NoError(t, err)
			require.Equal(t, want == rebuild.Held, done.Entry != "", done.Cut)
			require.Contains(t, state(), "1 [")
			require.Contains(t, state(), string(want))
			storetest.Talk(t, s, 12, 1)
			if want == rebuild.Held {
				require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "d"), transcript.Approve, "anna", ""))
			}
		}
		changed, err := s.CompactFor(ctx, guard.Need{Refused: true, Room: 8_000, Counter: storetest.Thousands{}})
		require.NoError(t, err)
		require.True(t, changed)
		require.Equal(t, "0 []", state())
		require.ErrorIs(t, turn.Decide(ctx, s, "d", transcript.Reject, "anna", ""), session.ErrConflict)
	})
}
