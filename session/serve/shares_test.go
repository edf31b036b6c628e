package serve

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// An owner leaves room for others, and owners who wait take turns.
func TestShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newShares(64)
		var got []string
		take := func(owner string, n int64) {
			go func() {
				if s.take(ctx, owner, n) == nil {
					got = append(got, owner)
				}
			}()
			synctest.Wait()
		}
		for range 80 {
			take("bob", 1)
		}
		require.Len(t, got, 48)
		for i := range 4 {
			take(fmt.Sprint("other", i), 1)
		}
		require.Len(t, got, 52)
		take("large", 13)
		require.Len(t, got, 52, "12 are free")
		take("small", 12)
		require.Len(t, got, 53)
		got = nil
		take("alice", 1)
		take("alice", 1)
		require.Empty(t, got)
		for range 40 {
			s.give("bob", 1)
			synctest.Wait()
		}
		require.Equal(t, "alice", got[0], "bob is too large")
		require.Contains(t, got, "large")

		cancel()
		synctest.Wait()
		require.ErrorIs(t, s.take(ctx, "bob", 1), context.Canceled)
		require.EqualValues(t, 64, s.free+s.held["bob"]+s.held["small"]+s.held["large"]+s.held["alice"]+4)
		for owner, n := range s.held {
			s.give(owner, n)
		}
		require.EqualValues(t, 64, s.free)
		require.Empty(t, s.held)
		require.Empty(t, s.queues)
	})
}
