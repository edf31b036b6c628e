package retain_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
)

// after is the clock of a policy, a number of days from now.
func after(days int) func() time.Time {
	return func() time.Time { return time.Now().AddDate(0, 0, days) }
}

// apply carries out a policy and returns the outcomes.
func apply(t *testing.T, st *session.Store, p retain.Policy) retain.Report {
	t.Helper()
	plan, err := retain.Preview(t.Context(), st, p)
	require.NoError(t, err)
	report, err := retain.Apply(t.Context(), st, plan)
	require.NoError(t, err)
	return report
}

func ids(t *testing.T, st *session.Store, state session.State) []string {
	t.Helper()
	return storetest.ListIDs(t, st, &session.ListOptions{State: state})
}

// answered returns a session of a key with a question and an answer with usage.
func answered(t *testing.T, st *session.Store, key session.Key, o *session.CreateOptions) *session.Session {
	t.Helper()
	s, err := st.Create(t.Context(), key, o)
	require.NoError(t, err)
	answer := storetest.Answer("Fine.")
	answer.Model, answer.Usage = "m", transcript.Usage{Input: 7, Output: 3}
	storetest.Add(t, s, transcript.UserText("How are you?"), answer)
	return s
}

// Lists and Get hide a session in the trash, its key has another current session, and
// Restore brings all of it back.
func TestTrash(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := answered(t, st, storetest.CLI, nil)
		before := storetest.Entries(t, s)
		require.NoError(t, retain.Trash(ctx, st, s.Ref()))
		require.NoError(t, retain.Trash(ctx, st, s.Ref()), "again does nothing")
		for _, state := range []session.State{session.Live, session.Archived, session.Expired, session.AnyState} {
			require.Empty(t, ids(t, st, state), state)
		}
		listed, err := st.List(ctx, &session.ListOptions{State: session.Trashed})
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.WithinDuration(t, time.Now(), listed[0].Trashed, time.Hour)
		hidden, err := st.Get(ctx, s.Ref())
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Equal(t, session.Trashed, storetest.Info(t, hidden).State)
		_, err = s.Append(ctx, transcript.UserText("x"))
		require.ErrorIs(t, err, session.ErrArchived)
		other := storetest.Load(t, st, storetest.CLI)
		require.NotEqual(t, s.Ref(), other.Ref())

		require.NoError(t, retain.Restore(ctx, st, s.Ref()))
		s, err = st.Get(ctx, s.Ref())
		require.NoError(t, err)
		after := storetest.Entries(t, s)
		require.Equal(t, before, after[:len(before)])
		require.Len(t, after, len(before)+2, "the lines of the trash and of the way back")
		require.Zero(t, storetest.Info(t, s).Trashed)
		require.ElementsMatch(t, []string{s.Ref().ID, other.Ref().ID}, ids(t, st, session.Live))
		storetest.Add(t, s, transcript.UserText("And now?"))
	})
}

// A session that was restored from the trash and archived later is an archived one, so that
// no plan deletes it. An archived session can be put into the trash, and back.
func TestTrashAndArchive(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		ref := answered(t, st, storetest.CLI, nil).Ref()
		require.NoError(t, retain.Trash(ctx, st, ref))
		require.NoError(t, retain.Restore(ctx, st, ref))
		require.NoError(t, st.SetState(ctx, ref, session.Archived, -1))
		require.Equal(t, []string{ref.ID}, ids(t, st, session.Archived))
		require.Empty(t, apply(t, st, retain.Policy{Now: after(60)}).Items)
		require.NoError(t, retain.Trash(ctx, st, ref))
		require.Equal(t, []string{ref.ID}, ids(t, st, session.Trashed))
		require.NoError(t, st.SetState(ctx, ref, session.Archived, -1))
		require.Equal(t, []string{ref.ID}, ids(t, st, session.Archived))
		require.Empty(t, ids(t, st, session.Trashed))
	})
}

// SetState puts nothing away that was appended to, whatever its state is to be.
func TestTrashAt(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := answered(t, st, storetest.CLI, nil)
		seen := storetest.Info(t, s).End
		storetest.Add(t, s, transcript.UserText("more"))
		for _, to := range []session.State{session.Trashed, session.Archived} {
			require.ErrorIs(t, st.SetState(ctx, s.Ref(), to, seen), session.ErrConflict)
		}
		unlock, err := s.LockTurn(ctx, false)
		require.NoError(t, err)
		before := storetest.Lines(t, s)
		require.ErrorIs(t, retain.Trash(ctx, st, s.Ref()), session.ErrBusy)
		require.Equal(t, before, storetest.Lines(t, s))
		require.NoError(t, unlock())
		require.NoError(t, st.SetState(ctx, s.Ref(), session.Archived, storetest.Info(t, s).End))
		require.Equal(t, []string{s.Ref().ID}, ids(t, st, session.Archived))
		require.ErrorIs(t, st.SetState(ctx, s.Ref(), session.Trashed, 1), session.ErrConflict)
		require.NoError(t, st.SetState(ctx, s.Ref(), session.Trashed, storetest.Info(t, s).End))
		require.Equal(t, []string{s.Ref().ID}, ids(t, st, session.Trashed))
	})
}

// Apply empties the trash of sessions whose time is over, whatever the policy selects
// otherwise, and each leaves a line in the ledger.
func TestTrashEmptied(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := answered(t, st, storetest.CLI, nil)
		info := storetest.Info(t, s)
		require.NoError(t, retain.Trash(ctx, st, s.Ref()))
		require.Empty(t, apply(t, st, retain.Policy{Now: after(29)}).Items)
		early, err := retain.Preview(ctx, st, retain.Policy{Now: after(31)})
		require.NoError(t, err)
		require.Contains(t, early.String(), "archive 0 of 0 sessions, delete 1 in the trash")
		early.Now = time.Now
		early.Force = true
		report, err := retain.Apply(ctx, st, early)
		require.NoError(t, err)
		require.Equal(t, "clock", report.Items[0].Reason, "a clock was corrected")

		report = apply(t, st, retain.Policy{Trash: time.Hour, Now: after(1)})
		require.Len(t, report.Items, 1)
		require.Equal(t, "done", report.Items[0].Outcome)
		require.Empty(t, ids(t, st, session.Trashed))
		gone, err := st.Get(ctx, s.Ref())
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Nil(t, gone)
		removed, err := retain.Removals(ctx, st)
		require.NoError(t, err)
		require.Len(t, removed, 1)
		require.Equal(t, "trash", removed[0].Rule)
		require.Equal(t, s.Ref(), removed[0].Ref)
		require.Equal(t, info.Usage, removed[0].Usage)
		require.Equal(t, 7, removed[0].Usage["m"].Input)
		require.Positive(t, removed[0].Size)
	})
}

// The ledger lists each deleted session, each owner sees its own, and an erase of
// the owner takes it along.
func TestRemovals(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		alice, err := st.Scope("alice")
		require.NoError(t, err)
		none, err := retain.Removals(ctx, st)
		require.NoError(t, err)
		require.Empty(t, none)
		var refs []session.Ref
		for _, owner := range []string{"alice", "alice", "bob", ""} {
			refs = append(refs, answered(t, st, session.Key{Agent: "main"}, &session.CreateOptions{Owner: owner}).Ref())
		}
		require.NoError(t, retain.Delete(ctx, alice, refs[0]))
		require.ErrorIs(t, retain.Delete(ctx, alice, refs[2]), fs.ErrNotExist, "of another owner")
		require.NoError(t, retain.Trash(ctx, st, refs[1]))
		require.NoError(t, retain.Delete(ctx, st, refs[1:]...))
		require.ErrorIs(t, retain.Delete(ctx, st, refs[0]), fs.ErrNotExist)
		rules := func(st *session.Store) (all [][3]string) {
			removed, err := retain.Removals(ctx, st)
			require.NoError(t, err)
			for _, r := range removed {
				require.Equal(t, 3, r.Usage["m"].Output)
				all = append(all, [3]string{r.Owner, r.ID, r.Rule})
			}
			return all
		}
		require.ElementsMatch(t, [][3]string{{"alice", refs[0].ID, "hand"}, {"alice", refs[1].ID, "hand"}, {"bob", refs[2].ID, "hand"}, {"", refs[3].ID, "hand"}}, rules(st))
		require.Len(t, rules(alice), 2)
		require.Empty(t, ids(t, st, session.AnyState), "lists leave the ledger out")

		// An ID may be used again: both removals count. A session that is there was not
		// deleted, whatever the ledger has.
		again := answered(t, st, session.Key{Agent: "main"}, &session.CreateOptions{ID: refs[3].ID})
		require.Len(t, rules(st), 4)
		require.NoError(t, retain.Delete(ctx, st, again.Ref()))
		require.Len(t, rules(st), 5)
		there := answered(t, st, session.Key{Agent: "main"}, nil)
		unlock, err := there.LockTurn(ctx, false)
		require.NoError(t, err)
		plan, err := retain.Preview(ctx, st, retain.Policy{Default: time.Hour, Delete: true, Force: true, Now: after(1)})
		require.NoError(t, err)
		report, err := retain.Apply(ctx, st, plan)
		require.NoError(t, err)
		require.Equal(t, "turn", report.Items[0].Reason)
		require.Len(t, rules(st), 5)
		require.NoError(t, unlock())

		for _, owner := range []string{"alice", "bob"} {
			p, err := erase.Preview(ctx, st, erase.Erasure{Owner: owner})
			require.NoError(t, err)
			_, err = erase.Run(ctx, st, p)
			require.NoError(t, err)
		}
		require.Len(t, rules(st), 2, "those without an owner")
	})
}

// An erase finds words in the trash, of its owner and by a match, and deletes those
// sessions.
func TestTrashErased(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		mine := answered(t, st, session.Key{Agent: "main"}, &session.CreateOptions{Owner: "alice"})
		other := answered(t, st, session.Key{Agent: "main"}, nil)
		storetest.Add(t, other, transcript.UserText(storetest.Word))
		fork, err := other.Fork(ctx, storetest.Entries(t, other)[1].ID, nil)
		require.NoError(t, err)
		require.NoError(t, retain.Trash(ctx, st, mine.Ref(), other.Ref(), fork.Ref()))
		for _, e := range []erase.Erasure{{Owner: "alice"}, {Match: storetest.HasWord}} {
			p, err := erase.Preview(ctx, st, e)
			require.NoError(t, err)
			require.NotEmpty(t, p.Places)
			receipt, err := erase.Run(ctx, st, p)
			require.NoError(t, err)
			require.NotEmpty(t, receipt.Places)
		}
		require.Equal(t, []string{fork.Ref().ID}, ids(t, st, session.Trashed))
	})
}

// A lost index does not bring a session back from the trash.
func TestTrashWithoutIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := answered(t, st, storetest.CLI, nil)
	require.NoError(t, retain.Trash(t.Context(), st, s.Ref()))
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	require.Empty(t, ids(t, st, session.AnyState))
	require.Equal(t, []string{s.Ref().ID}, ids(t, st, session.Trashed))
	storetest.Close(t, st)
	st = storetest.Open(t, dir, &session.Options{ReadOnly: true})
	require.Error(t, retain.Delete(context.Background(), st, s.Ref()))
	storetest.Close(t, st)
}

// A session that was brought back is not deleted by an Apply that had begun before.
func TestApplyBesideARestore(t *testing.T) {
	dir := t.TempDir()
	b, st := storetest.OpenBetween(t, dir)
	other := storetest.Open(t, dir, nil) // of another process
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	require.NoError(t, retain.Trash(t.Context(), st, s.Ref()))
	plan, err := retain.Preview(t.Context(), st, retain.Policy{Now: after(31)})
	require.NoError(t, err)
	require.Len(t, plan.Items, 1)
	b.BeforeDelete = storetest.Once(func() { require.NoError(t, retain.Restore(t.Context(), other, s.Ref())) })
	_, err = retain.Apply(t.Context(), st, plan)
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(st.Get(t.Context(), s.Ref())))
}

// A plan that is refused does nothing: the clock may be fast. Archived sessions that are dated
// ahead refuse no plan that leaves them alone.
func TestTrashOfARefusedPlan(t *testing.T) {
	t.Parallel()
	for _, ahead := range []bool{true, false} {
		clock := time.Now()
		st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: func() time.Time { return clock }})
		gone := answered(t, st, storetest.CLI, nil)
		require.NoError(t, retain.Trash(t.Context(), st, gone.Ref()))
		old := answered(t, st, storetest.CLI, nil)
		p := retain.Policy{Now: after(40), MaxSessions: 1}
		if ahead {
			p.MaxSessions = 0
			clock = after(400)()
			require.NoError(t, st.SetState(t.Context(), answered(t, st, storetest.CLI, nil).Ref(), session.Archived, -1))
		} else {
			answered(t, st, storetest.CLI, nil)
		}
		plan, err := retain.Preview(t.Context(), st, p)
		require.NoError(t, err)
		report, err := retain.Apply(t.Context(), st, plan)
		require.Equal(t, !ahead, errors.Is(err, retain.ErrForce), err)
		want := []retain.Result{}
		if ahead {
			want = append(want, retain.Result{Ref: gone.Ref(), Outcome: "done"})
		}
		require.Equal(t, want, report.Items)
		require.Contains(t, ids(t, st, session.Live), old.Ref().ID)
		storetest.Close(t, st)
	}
}
