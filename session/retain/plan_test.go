package retain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

const day = 24 * time.Hour

// aging is a store whose sessions have ages.
type aging struct {
	*session.Store
	now time.Time
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newAging(t *testing.T, drv driver.Driver) *aging {
	t.Helper()
	a := &aging{now: noon}
	a.Store = session.OpenDriver(drv, &session.Options{Now: func() time.Time { return a.now }})
	return a
}

// by gives a policy the clock of the store.
func (a *aging) by(p retain.Policy) retain.Policy {
	p.Now = func() time.Time { return a.now }
	return p
}

// add makes a session whose last message is so old.
func (a *aging) add(t *testing.T, id string, age time.Duration, o session.CreateOptions, peer ...string) *session.Session {
	t.Helper()
	was := a.now
	defer func() { a.now = was }()
	a.now = was.Add(-age)
	o.ID = id
	key := session.Key{Agent: "main", Channel: "c", Peer: id}
	for _, p := range peer {
		key.Peer = p
	}
	s, err := a.Create(t.Context(), key, &o)
	require.NoError(t, err)
	storetest.Add(t, s, transcript.UserText("question of "+id), storetest.Answer("answer"))
	return s
}

// planSays returns a plan in short.
func planSays(p retain.Plan) (all []string) {
	for _, i := range p.Items {
		all = append(all, strings.TrimRight(fmt.Sprint(i.ID, " ", i.Why, " ", i.Protected), " "))
	}
	return all
}

func outcomes(r retain.Report) (all []string) {
	for _, i := range r.Items {
		all = append(all, strings.TrimRight(fmt.Sprint(i.ID, " ", i.Outcome, " ", i.Reason), " "))
	}
	return all
}

func all(t *testing.T, st *session.Store) []string {
	t.Helper()
	return storetest.ListIDs(t, st, &session.ListOptions{State: session.AnyState})
}

// The same key of two owners is two keys.
func TestPreviewOfTwoOwners(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	for i, owner := range []string{"o", "p", "o", ""} {
		a.add(t, fmt.Sprint("s", i), 20*day-time.Duration(i)*time.Hour, session.CreateOptions{Owner: owner}, "k")
	}
	plan, err := retain.Preview(t.Context(), a.Store, a.by(retain.Policy{PerKey: 1}))
	require.NoError(t, err)
	require.Equal(t, []string{"s0 count"}, planSays(plan))
}

// A held call keeps its session from a limit of number or size, but not from an age.
func TestPreviewOfHeldCall(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	held := a.add(t, "held", 60*day, session.CreateOptions{}, "k")
	a.add(t, "later", 20*day, session.CreateOptions{}, "k")
	now := a.now
	a.now = now.Add(-50 * day)
	ids := storetest.Add(t, held, transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "c", Name: "pay", Input: []byte(`{}`)},
	}})
	storetest.Add(t, held, transcript.Decision{Call: ids[len(ids)-1], CallID: "c", Verdict: transcript.Hold})
	a.now = now
	for want, p := range map[string]retain.Policy{
		"held count waits": {PerKey: 1},
		"held bytes waits": {MaxBytes: 1},
		"held ttl":         {Default: 45 * day},
	} {
		plan, err := retain.Preview(t.Context(), a.Store, a.by(p))
		require.NoError(t, err)
		require.Contains(t, planSays(plan), want)
	}
}

// A plan chooses old and surplus sessions, and names their protection.
func TestPreview(t *testing.T) {
	month := session.CreateOptions{TTL: 30 * day}
	for name, tt := range map[string]struct {
		r    retain.Policy
		want []string
	}{
		"nothing":          {retain.Policy{}, nil},
		"own TTL":          {retain.Policy{TTL: true}, []string{"over ttl"}},
		"TTL of others":    {retain.Policy{Default: 45 * day}, []string{"old ttl", "pinned ttl keep"}},
		"both":             {retain.Policy{TTL: true, Default: 45 * day}, []string{"old ttl", "pinned ttl keep", "over ttl"}},
		"count":            {retain.Policy{MaxSessions: 4}, []string{"old count current", "pinned count keep", "over count current", "k1 count"}},
		"count, nothing":   {retain.Policy{MaxSessions: 8}, nil},
		"per key":          {retain.Policy{PerKey: 1}, []string{"k1 count"}},
		"per owner":        {retain.Policy{MaxSessions: 1, PerOwner: true}, []string{"old count current", "pinned count keep", "over count current", "k1 count", "day count current", "new count current"}},
		"bytes":            {retain.Policy{MaxBytes: 1}, []string{"old bytes current", "pinned bytes keep", "over bytes current", "k1 bytes", "k2 bytes current", "day bytes current", "new bytes current", "newest bytes current"}},
		"TTL before count": {retain.Policy{TTL: true, MaxSessions: 5}, []string{"old count current", "pinned count keep", "over ttl"}},
		"kept":             {retain.Policy{PerKey: 1, Keep: func(i session.Info) bool { return i.ID == "k1" }}, []string{"k1 count kept"}},
		"recent":           {retain.Policy{Default: time.Minute}, []string{"old ttl", "pinned ttl keep", "k1 ttl", "k2 ttl", "day ttl", "new ttl recent"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAging(t, memdriver.New(nil))
			defer storetest.Close(t, a.Store)
			a.add(t, "old", 60*day, session.CreateOptions{})
			require.NoError(t, a.add(t, "pinned", 50*day, session.CreateOptions{}).SetMeta(t.Context(), transcript.Meta{Keep: new(true)}))
			a.add(t, "over", 31*day, month)
			a.add(t, "k1", 20*day, session.CreateOptions{Owner: "o"}, "k")
			a.add(t, "k2", 19*day, session.CreateOptions{Owner: "o"}, "k")
			a.add(t, "day", day, session.CreateOptions{})
			a.add(t, "new", 30*time.Minute, session.CreateOptions{})
			a.add(t, "newest", 0, month)
			before := storetest.JSON(t, all(t, a.Store))
			plan, err := retain.Preview(t.Context(), a.Store, a.by(tt.r))
			require.NoError(t, err)
			require.Equal(t, tt.want, planSays(plan))
			require.Equal(t, 8, plan.Of)
			require.Equal(t, before, storetest.JSON(t, all(t, a.Store)), "a plan changes nothing")

			var again retain.Plan
			require.NoError(t, json.Unmarshal([]byte(storetest.JSON(t, plan)), &again))
			require.Equal(t, storetest.JSON(t, plan), storetest.JSON(t, again))
			require.Contains(t, plan.String(), "archive ")
			for _, i := range plan.Items {
				require.Contains(t, plan.String(), i.ID)
			}
		})
	}
}

func TestBadPolicy(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	for _, r := range []retain.Policy{{Default: -1}, {MaxSessions: -1}, {MaxBytes: -1}, {PerKey: -1}, {Trash: -1}} {
		_, err := retain.Preview(t.Context(), a.Store, a.by(r))
		require.ErrorIs(t, err, fs.ErrInvalid)
		require.ErrorIs(t, retain.Run(t.Context(), a.Store, a.by(r), time.Hour, nil), fs.ErrInvalid)
	}
	require.ErrorIs(t, retain.Run(t.Context(), a.Store, a.by(retain.Policy{}), 0, nil), fs.ErrInvalid)
	_, err := a.List(t.Context(), &session.ListOptions{State: "odd"})
	require.ErrorIs(t, err, fs.ErrInvalid)
	storetest.Close(t, a.Store)
	require.ErrorIs(t, retain.Run(t.Context(), a.Store, a.by(retain.Policy{}), time.Hour, nil), session.ErrClosed)
}

// Apply looks at each session again: changed ones stay.
func TestApply(t *testing.T) {
	for _, remove := range []bool{false, true} {
		t.Run(fmt.Sprint("delete ", remove), func(t *testing.T) {
			a := newAging(t, memdriver.New(nil))
			defer storetest.Close(t, a.Store)
			for i := range 40 {
				a.add(t, fmt.Sprint("live", i), time.Duration(i)*time.Hour, session.CreateOptions{})
			}
			made := map[string]*session.Session{}
			for i, id := range []string{"gone", "said", "pinned", "turn", "mine", "over1", "over2"} {
				made[id] = a.add(t, id, 60*day-time.Duration(i)*time.Hour, session.CreateOptions{})
			}
			plan, err := retain.Preview(t.Context(), a.Store, a.by(retain.Policy{Default: 30 * day, Delete: remove}))
			require.NoError(t, err)
			require.Equal(t, []string{"gone ttl", "said ttl", "pinned ttl", "turn ttl", "mine ttl", "over1 ttl", "over2 ttl"}, planSays(plan))

			require.NoError(t, a.Delete(t.Context(), made["gone"].Ref()))
			storetest.Add(t, made["said"], transcript.UserText("I am back"))
			require.NoError(t, made["pinned"].SetMeta(t.Context(), transcript.Meta{Keep: new(true)}))
			tn, err := turn.Begin(t.Context(), made["turn"])
			require.NoError(t, err)
			plan.Items[4].Protected = "kept"

			report, err := retain.Apply(t.Context(), a.Store, plan)
			require.NoError(t, err)
			gone := "gone done"
			if !remove {
				gone = "gone changed"
			}
			want := []string{gone, "said changed", "pinned changed", "turn protected turn", "mine protected kept", "over1 done", "over2 done"}
			require.Equal(t, want, outcomes(report))
			require.NoError(t, tn.End())
			again, err := retain.Apply(t.Context(), a.Store, plan)
			require.NoError(t, err)
			require.Contains(t, outcomes(again), "turn done")
			require.Contains(t, outcomes(again), "over1 done", "what is done stays done")
			for _, id := range []string{"turn", "over1", "over2"} {
				s, err := a.Get(t.Context(), made[id].Ref())
				if remove {
					require.ErrorIs(t, err, fs.ErrNotExist)
				} else {
					require.NoError(t, err)
					require.Equal(t, session.Archived, storetest.Info(t, s).State)
				}
			}
			require.Contains(t, storetest.History(t, made["said"]), "I am back")
		})
	}
}

// A plan may be put together from two. A session that was written to since the earlier
// one was made stays, even if the later one names it as protected.
func TestApplyProtectedElsewhere(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	r := retain.Policy{Default: 30 * day, Delete: true, Force: true}
	said := a.add(t, "said", 60*day, session.CreateOptions{})
	plan, err := retain.Preview(t.Context(), a.Store, a.by(r))
	require.NoError(t, err)
	now := a.now
	a.now = now.Add(-50 * day)
	storetest.Add(t, said, transcript.UserText("I was back"))
	a.now = now
	r.Keep = func(session.Info) bool { return true }
	later, err := retain.Preview(t.Context(), a.Store, a.by(r))
	require.NoError(t, err)

	plan.Items = append(plan.Items, later.Items...)
	report, err := retain.Apply(t.Context(), a.Store, plan)
	require.NoError(t, err)
	require.Equal(t, []string{"said changed", "said protected kept"}, outcomes(report))
	require.Equal(t, []string{"said"}, all(t, a.Store))
}

// A plan for over a quarter of the sessions needs Force.
func TestApplyQuarter(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	for i := range 8 {
		a.add(t, fmt.Sprint("s", i), time.Duration(i)*20*day, session.CreateOptions{})
	}
	plan, err := retain.Preview(t.Context(), a.Store, a.by(retain.Policy{Default: 90 * day}))
	require.NoError(t, err)
	require.Len(t, plan.Items, 3)
	report, err := retain.Apply(t.Context(), a.Store, plan)
	require.ErrorIs(t, err, retain.ErrForce)
	require.Empty(t, report.Items)
	require.Contains(t, plan.String(), "not applied")
	require.Len(t, storetest.ListIDs(t, a.Store, nil), 8)
	plan.Force = true
	report, err = retain.Apply(t.Context(), a.Store, plan)
	require.NoError(t, err)
	require.Len(t, report.Items, 3)
	require.Positive(t, report.Freed)
	require.Equal(t, plan.Freed, report.Freed)
	require.Len(t, storetest.ListIDs(t, a.Store, &session.ListOptions{State: session.Archived}), 3)
}

// Archived sessions are deleted by a plan that deletes.
func TestDeleteArchivedByPlan(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	for i := range 10 {
		a.add(t, fmt.Sprint("s", i), time.Duration(i)*20*day, session.CreateOptions{})
	}
	for _, r := range []retain.Policy{{Default: 150 * day}, {Default: 170 * day, Delete: true}} {
		plan, err := retain.Preview(t.Context(), a.Store, a.by(r))
		require.NoError(t, err)
		_, err = retain.Apply(t.Context(), a.Store, plan)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"s8"}, storetest.ListIDs(t, a.Store, &session.ListOptions{State: session.Archived}))
	require.Len(t, all(t, a.Store), 9)
}

// A session is expired by the time of its last user message. It is not listed then,
// but it is found, loaded and continued, and is live again.
func TestExpired(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	s := a.add(t, "s", 10*day, session.CreateOptions{TTL: 20 * day})
	empty, err := a.Create(t.Context(), session.Key{Agent: "main", Channel: "c", Peer: "empty"}, &session.CreateOptions{ID: "empty", TTL: 20 * day})
	require.NoError(t, err)
	require.Equal(t, noon.Add(20*day), storetest.Info(t, empty).Expires)
	require.Equal(t, noon.Add(10*day), storetest.Info(t, s).Expires)
	require.Equal(t, session.Live, storetest.Info(t, s).State)
	a.now = noon.Add(10 * day)
	require.Equal(t, session.Expired, storetest.Info(t, s).State)
	require.Equal(t, []string{"empty"}, storetest.ListIDs(t, a.Store, nil))
	require.Equal(t, []string{"s"}, storetest.ListIDs(t, a.Store, &session.ListOptions{State: session.Expired}))
	_, err = search.ByPrefix(t.Context(), a.Store, "s", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	info, err := search.ByPrefix(t.Context(), a.Store, "s", &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.Equal(t, session.Expired, info.State)
	storetest.Add(t, storetest.Load(t, a.Store, session.Key{Agent: "main", Channel: "c", Peer: "s"}), storetest.Answer("only an answer"))
	require.Equal(t, session.Expired, storetest.Info(t, s).State)
	storetest.Add(t, s, transcript.UserText("hello"))
	require.Len(t, storetest.ListIDs(t, a.Store, nil), 2)
	for _, ttl := range []int64{1 << 60, -1, -1 << 34, -1 << 60} {
		require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{TTL: &ttl}))
		require.True(t, storetest.Info(t, s).Expires.IsZero(), "no clock goes so far as %d s", ttl)
	}
}

// Run continues after failures and stops when its context ends.
func TestRun(t *testing.T) {
	full, fails := true, 0
	drv := memdriver.New(&memdriver.Options{Fail: func(op string, _ driver.Ref) error {
		if op != "Archive" || !full {
			return nil
		}
		fails++
		full = fails < 3
		return errors.New("no space left on device")
	}})
	a := newAging(t, drv)
	defer storetest.Close(t, a.Store)
	for i := range 10 {
		a.add(t, fmt.Sprint("s", i), time.Duration(i)*10*day, session.CreateOptions{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- retain.Run(ctx, a.Store, a.by(retain.Policy{Default: 85 * day}), time.Millisecond, nil)
	}()
	require.Eventually(t, func() bool {
		infos, err := a.List(t.Context(), &session.ListOptions{State: session.Archived})
		return err == nil && len(infos) == 1
	}, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// A plan of a store whose transcripts cannot be read.
func TestPlanOpensNoTranscript(t *testing.T) {
	n := storetest.Extent(*storetest.Faults, 300, 10_000, 100_000)
	dir := t.TempDir()
	manySessions(t, dir, n)
	hidden := filepath.Join(dir, "agents/main/sessions")
	files, err := os.ReadDir(hidden)
	require.NoError(t, err)
	require.Len(t, files, n)
	st := storetest.Open(t, dir, &session.Options{Now: func() time.Time { return noon.Add(100 * day) }})
	defer storetest.Close(t, st)
	for _, file := range files { // a read of any of them would find garbage
		path := filepath.Join(hidden, file.Name())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, make([]byte, info.Size()), 0o600))
	}
	plan, err := retain.Preview(t.Context(), st, retain.Policy{
		Default: 30 * day, Force: true, MaxSessions: n / 2, Now: func() time.Time { return noon.Add(100 * day) },
	})
	require.NoError(t, err)
	require.Equal(t, n, plan.Of)
	require.Len(t, plan.Items, n)
	require.Empty(t, plan.Items[0].Protected)
}

// manySessions makes a store with n sessions by writing its files: an index, and
// transcripts of a header and a message.
func manySessions(t *testing.T, dir string, n int) {
	t.Helper()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever, Now: func() time.Time { return noon }})
	s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{ID: "s"})
	require.NoError(t, err)
	storetest.Add(t, s, transcript.UserText("hello"))
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions/s.jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	index := filepath.Join(dir, "agents/main/sessions.jsonl")
	rows, err := os.ReadFile(index)
	require.NoError(t, err)
	lines := strings.Split(string(rows[:bytes.LastIndex(rows, []byte(`{"closed":`))-1]), "\n") // a row comes before that
	var sb strings.Builder
	sb.WriteString(lines[0] + "\n")
	for i := range n {
		id := fmt.Sprintf("s%d", i)
		mine := strings.Replace(string(text), `"id":"s"`, `"id":"`+id+`"`, 1)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), id+".jsonl"), []byte(mine), 0o600))
		row := strings.Replace(lines[len(lines)-1], `"id":"s"`, `"id":"`+id+`"`, 1)
		row = strings.Replace(row, fmt.Sprintf(`"size":%d`, len(text)), fmt.Sprintf(`"size":%d`, len(mine)), 1)
		sb.WriteString(row + "\n")
	}
	require.NoError(t, os.WriteFile(index, []byte(sb.String()), 0o600))
}

func TestApplyOddPlan(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	storetest.Load(t, st, storetest.CLI)
	_, err := retain.Apply(t.Context(), st, retain.Plan{Force: true, Of: -100})
	require.NoError(t, err)
}

// A scope plans for the sessions of its owner alone, and leaves others alone.
func TestScope(t *testing.T) {
	a := newAging(t, memdriver.New(nil))
	defer storetest.Close(t, a.Store)
	adas, berts := a.add(t, "ada", 60*day, session.CreateOptions{Owner: "ada"}), a.add(t, "bert", 60*day, session.CreateOptions{Owner: "bert"})
	scope, err := a.Scope("ada")
	require.NoError(t, err)
	plan, err := retain.Preview(t.Context(), scope, a.by(retain.Policy{Default: 1, Force: true}))
	require.NoError(t, err)
	require.Equal(t, []string{"ada ttl"}, planSays(plan))
	require.ErrorIs(t, scope.SetState(t.Context(), berts.Ref(), session.Archived, -1), fs.ErrNotExist)
	require.ErrorIs(t, scope.SetState(t.Context(), berts.Ref(), session.Live, -1), fs.ErrNotExist)
	for _, remove := range []bool{false, true} {
		info := storetest.Info(t, berts)
		info.UpdatedAt = time.Time{}
		plan := retain.Plan{Delete: remove, Force: true, Of: 1, Items: []retain.Item{{Info: info, Why: "count"}}}
		report, err := retain.Apply(t.Context(), scope, plan)
		require.NoError(t, err, "a session that is gone is done with")
		require.Len(t, report.Items, 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, retain.Run(ctx, scope, retain.Policy{Default: 1, Force: true, Delete: true}, time.Hour, nil), context.Canceled)
	require.Contains(t, storetest.History(t, berts), "question of bert")
	require.Contains(t, storetest.History(t, adas), "question of ada")
}
