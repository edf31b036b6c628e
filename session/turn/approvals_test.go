package turn_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// Held calls of all sessions of an owner are found, with the time of the hold, until
// they are decided.
func TestApprovals(t *testing.T) {
	c := &storetest.Clock{Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: c.Tick})
	defer storetest.Close(t, st)
	ctx := t.Context()
	held := map[string]time.Time{}
	for i, owner := range []string{"ada", "ada", "bob", "ada"} {
		s, err := st.Create(ctx, session.Key{Agent: "main"}, &session.CreateOptions{ID: fmt.Sprint("s", i), Owner: owner})
		require.NoError(t, err)
		storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "x", "y", "z"))
		if i == 3 {
			continue
		}
		for _, id := range []string{"x", "y"} {
			require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, id), transcript.Hold, "policy", ""))
			held[fmt.Sprint(s.Ref().ID, id)] = c.Now.Truncate(time.Microsecond)
		}
		require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "y"), transcript.Approve, "bob", ""))
	}
	found := func(st *session.Store, opts *session.ListOptions) (ids []string) {
		for a, err := range turn.Approvals(ctx, st, opts) {
			require.NoError(t, err)
			id := a.Session.ID + a.Call.Call.ID
			require.Equal(t, held[id], a.Since)
			ids = append(ids, id)
		}
		return ids
	}
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"s0x", "s1x"}, found(ada, nil))
	require.ElementsMatch(t, []string{"s0x", "s1x", "s2x"}, found(st, nil))
	require.Equal(t, []string{"s2x"}, found(st, &session.ListOptions{Owner: "bob"}))

	s, err := ada.Get(ctx, session.Ref{Agent: "main", ID: "s0"})
	require.NoError(t, err)
	require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "x"), transcript.Reject, "ada", ""))
	require.Equal(t, []string{"s1x"}, found(ada, nil))

	for a, err := range turn.Approvals(ctx, st, &session.ListOptions{State: "odd"}) {
		require.Zero(t, a)
		require.Error(t, err)
	}
}

// A session that another process has replaced, or that cannot be read, hides no other.
func TestApprovalsOfReplacedSessions(t *testing.T) {
	dir := t.TempDir()
	st, other := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	defer storetest.Close(t, other)
	var refs []session.Ref
	for i := range 4 {
		s, err := st.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: fmt.Sprint("s", i)})
		require.NoError(t, err)
		storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "x"))
		require.NoError(t, turn.Decide(t.Context(), s, storetest.PendingEntry(s, "x"), transcript.Hold, "policy", ""))
		refs = append(refs, s.Ref())
	}
	found := func() (ids []string, err error) {
		for a, failed := range turn.Approvals(t.Context(), other, nil) {
			if err = failed; err == nil {
				ids = append(ids, a.Session.ID)
			}
		}
		return ids, err
	}
	_, err := found()
	require.NoError(t, err)
	for _, state := range []session.State{session.Archived, session.Live} {
		require.NoError(t, st.SetState(t.Context(), refs[2], state, -1))
	}
	ids, err := found()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"s0", "s1", "s2", "s3"}, ids)
}
