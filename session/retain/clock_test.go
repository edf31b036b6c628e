package retain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A clock that jumps back removes no session, and one that jumps forward none if more than
// a quarter look too old: an hour to ten years, noticed or not, with or without a message
// in between.
func TestClock(t *testing.T) {
	both := []bool{false, true}
	jumps := []time.Duration{time.Hour, 5 * time.Hour, day, 3 * day, 10 * day, 29 * day, 30 * day, 31 * day, 365 * day, 10 * 365 * day}
	for i, d := range jumps {
		for _, sign := range []time.Duration{1, -1} {
			if sign > 0 && (d == day || d == 3*day) { // at most 6 of 60 are too old by then
				continue
			}
			for _, written := range storetest.Extent(*storetest.Faults, both[i%2:i%2+1], both, both) {
				for _, r := range []retain.Policy{{Default: 30 * day, Delete: true}, {TTL: true, Delete: true}} {
					a := newAging(t, memdriver.New(nil))
					var o session.CreateOptions
					if r.TTL {
						o.TTL = 30 * day
					}
					for i := range 60 {
						a.add(t, fmt.Sprint("s", i), time.Duration(i)*day/2, o)
					}
					before := all(t, a.Store)
					a.now = noon.Add(sign * d)
					if written {
						s, err := a.Get(t.Context(), session.Ref{Agent: "main", ID: "s0"})
						require.NoError(t, err)
						storetest.Add(t, s, transcript.UserText("hello"))
					}
					apply := func() {
						plan, err := retain.Preview(t.Context(), a.Store, a.by(r))
						require.NoError(t, err)
						if _, err = retain.Apply(t.Context(), a.Store, plan); err != nil {
							require.ErrorIs(t, err, retain.ErrForce)
						}
					}
					apply()
					a.now = noon // and is corrected
					apply()
					require.ElementsMatch(t, before, all(t, a.Store), "%v, written %v", sign*d, written)
					storetest.Close(t, a.Store)
				}
			}
		}
	}
}

// A clock that is behind the newest messages, or the plan, refuses the plan once.
func TestClockThatWentBack(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	for i := range 20 {
		a.add(t, fmt.Sprint("s", i), time.Duration(i)*day, session.CreateOptions{})
	}
	for i := range 7 { // more than a quarter
		a.add(t, fmt.Sprint("future", i), -2*time.Hour, session.CreateOptions{})
	}
	limit := retain.Policy{MaxSessions: 18}
	plan, err := retain.Preview(t.Context(), a.Store, a.by(limit))
	require.NoError(t, err)
	for i := range plan.Items {
		plan.Items[i].Protected = "kept" // all but one refusal would do nothing
	}
	report, err := retain.Apply(t.Context(), a.Store, plan)
	require.ErrorIs(t, err, retain.ErrForce)
	require.Empty(t, report.Items)
	require.ErrorContains(t, err, "T14:00:00Z")

	a.now = noon.Add(time.Hour)
	_, err = retain.Apply(t.Context(), a.Store, plan)
	require.NoError(t, err)
	a.now = noon.Add(-2 * time.Hour)
	plan.Force = true
	_, err = retain.Apply(t.Context(), a.Store, plan)
	require.NoError(t, err)
	require.NoError(t, a.Delete(t.Context(), session.Ref{Agent: "main", ID: "future0"}))
	plan.Force = false
	_, err = retain.Apply(t.Context(), a.Store, plan)
	require.ErrorIs(t, err, retain.ErrForce)
	require.Contains(t, plan.String(), "not applied")
}

// A plan that was made with a wrong clock does nothing with the right one.
func TestApplyRightClock(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	for i := range 20 {
		a.add(t, fmt.Sprint("s", i), time.Duration(i)*day, session.CreateOptions{})
	}
	a.now = noon.Add(20 * day)
	plan, err := retain.Preview(t.Context(), a.Store, a.by(retain.Policy{Default: 30 * day, Delete: true, Force: true}))
	require.NoError(t, err)
	require.Len(t, plan.Items, 10)
	a.now = noon
	report, err := retain.Apply(t.Context(), a.Store, plan)
	require.NoError(t, err)
	for _, one := range report.Items {
		require.Equal(t, "protected", one.Outcome)
	}
	require.Len(t, all(t, a.Store), 20)
}

// Sessions that are dated ahead are never selected, take no room from others, and do not
// keep a plan from being applied.
func TestDatedAhead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	clock := now.AddDate(5, 0, 0)
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: func() time.Time { return clock }})
	defer storetest.Close(t, st)
	ahead := answered(t, st, storetest.CLI, nil)
	var old []string
	for day := range 8 {
		clock = now.AddDate(0, 0, day-30)
		old = append(old, answered(t, st, storetest.CLI, nil).Ref().ID)
	}
	clock = now
	p := retain.Policy{MaxSessions: 7, Delete: true, Now: func() time.Time { return now }}
	plan, err := retain.Preview(t.Context(), st, p)
	require.NoError(t, err)
	require.Len(t, plan.Items, 1)
	require.Equal(t, old[0], plan.Items[0].ID)
	report, err := retain.Apply(t.Context(), st, plan)
	require.NoError(t, err)
	require.Equal(t, "done", report.Items[0].Outcome)
	require.NoError(t, st.Delete(t.Context(), ahead.Ref()))

	// Half of them ahead is a clock that went back.
	p.Now = func() time.Time { return now.AddDate(0, 0, -27) }
	plan, err = retain.Preview(t.Context(), st, p)
	require.NoError(t, err)
	require.Empty(t, plan.Items)
	_, err = retain.Apply(t.Context(), st, plan)
	require.ErrorIs(t, err, retain.ErrForce)
}
