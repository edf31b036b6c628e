package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A list in the process that wrote the sessions costs its page, however many
// sessions there are, even after an append to one of them.
func TestListCostsItsPage(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	listed := func(count int) (again, afterAppend float64) {
		st := storetest.Open(t, t.TempDir(), storetest.Unsynced)
		defer storetest.Close(t, st)
		var one *session.Session
		for i := range count {
			one = storetest.Load(t, st, session.Key{Agent: "main", Channel: "web", Peer: fmt.Sprint(i)})
			storetest.Add(t, one, transcript.UserText("Why does the build fail?"))
		}
		newest := func() {
			infos := storetest.List(t, st, &session.ListOptions{Limit: 5})
			require.Len(t, infos, 5)
		}
		newest() // writes the rows of all sessions
		again = testing.AllocsPerRun(5, newest)
		return again, testing.AllocsPerRun(5, func() {
			storetest.Add(t, one, transcript.UserText("And now?"))
			newest()
		})
	}
	fewAgain, fewAfter := listed(20)
	manyAgain, manyAfter := listed(400)
	t.Logf("allocations of a list of 5 among 20 and 400 sessions: %v and %v; after an append %v and %v", fewAgain, manyAgain, fewAfter, manyAfter)
	require.LessOrEqual(t, manyAgain, 2*fewAgain, "the same list again")
	require.LessOrEqual(t, manyAfter, 2*fewAfter, "after an append")
}

// The first list of a process reads the whole index. A session costs it few
// allocations, including the lines that its creation has left there.
func TestFirstListIsCheap(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	const count = 300
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	for i := range count {
		storetest.Add(t, storetest.Load(t, st, session.Key{Agent: "main", Channel: "web", Peer: fmt.Sprint(i)}), transcript.UserText("Why does the build fail?"))
	}
	storetest.Close(t, st)
	allocs := testing.AllocsPerRun(3, func() {
		st := storetest.Open(t, dir, storetest.Unsynced)
		defer storetest.Close(t, st)
		_ = storetest.List(t, st, &session.ListOptions{Limit: 5})
	})
	t.Logf("%.1f allocations a session", allocs/count)
	require.Less(t, allocs, 6.*count+600)
}
