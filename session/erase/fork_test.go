package erase_test

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A fork that has read a session before something of it was erased is not made.
func TestForkOfWhatWasErased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		what func(s *session.Session, id string) erase.Erasure
		is   error
	}{
		"entries": {func(s *session.Session, id string) erase.Erasure { return chosen(s, id) }, session.ErrReplaced},
		"match":   {func(*session.Session, string) erase.Erasure { return erase.Erasure{Match: storetest.HasWord} }, session.ErrReplaced},
		"owner":   {func(*session.Session, string) erase.Erasure { return erase.Erasure{Owner: "ada"} }, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			var read func() // once the fork has read its base
			st := storetest.Open(t, dir, &session.Options{Now: func() time.Time {
				if f := read; f != nil {
					read = nil
					f()
				}
				return time.Now()
			}})
			defer storetest.Close(t, st)
			other := storetest.Open(t, dir, nil)
			defer storetest.Close(t, other)
			s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
			require.NoError(t, err)
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			read = func() { erased(t, other, test.what(s, ids[0])) }
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.ErrorIs(t, err, test.is)
			require.Nil(t, read)
			require.Empty(t, storetest.FilesWith(t, dir))
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.Equal(t, name != "owner", err == nil, err)
			require.Empty(t, storetest.FilesWith(t, dir))
		})
	}
}

// An erase may end in the last moment before a fork is made. No session is made then.
func TestForkAfterAnErase(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]erase.Erasure{"match": {Match: storetest.HasWord}, "owner": {Owner: "ada"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			b, st := storetest.OpenBetween(t, dir)
			defer storetest.Close(t, st)
			other := storetest.Open(t, dir, nil)
			defer storetest.Close(t, other)
			s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
			require.NoError(t, err)
			require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, "pet", []byte(`"`+storetest.Word+`"`), "")))
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			b.BeforeCreate = storetest.Once(func() { erased(t, other, what) })
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.True(t, errors.Is(err, session.ErrReplaced) || name == "owner" && errors.Is(err, fs.ErrNotExist), err)
			require.Empty(t, storetest.FilesWith(t, dir))
			left, err := other.List(t.Context(), &session.ListOptions{State: session.AnyState})
			require.NoError(t, err)
			require.Len(t, left, map[string]int{"match": 1, "owner": 0}[name])
		})
	}
}

// No fork of a session that is gone is made.
func TestForkOfWhatWasDeleted(t *testing.T) {
	t.Parallel()
	var read func() error // once the fork has read its base
	st := session.OpenDriver(struct{ driver.Driver }{memdriver.New(nil)}, &session.Options{Now: func() time.Time {
		if f := read; f != nil {
			read = nil
			require.NoError(t, f())
		}
		return time.Now()
	}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("Hello."), transcript.AssistantText("Hello."))
	read = func() error { return st.Delete(t.Context(), s.Ref()) }
	_, err := s.Fork(t.Context(), ids[1], nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = storetest.Current(t.Context(), st, storetest.CLI)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// An erase that deletes a session looks for forks before it does, and once more after it.
// A fork that is made in between loses what it was made with.
func TestForkOfWhatIsErased(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"", "ada"} {
		t.Run("of "+owner, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			b, st := storetest.OpenBetween(t, dir)
			defer storetest.Close(t, st)
			other := storetest.Open(t, dir, nil)
			defer storetest.Close(t, other)
			s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
			require.NoError(t, err)
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("A "+storetest.Word+" is large."))
			forking := other
			if owner != "" {
				forking, err = other.Scope(owner)
				require.NoError(t, err)
			}
			base, err := forking.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			var own string // what the fork says itself
			b.BeforeDelete = storetest.Once(func() {
				fork, err := base.Fork(t.Context(), ids[1], nil)
				require.NoError(t, err)
				own = storetest.Add(t, fork, transcript.UserText("Elsewhere."))[0]
				_, err = fork.Fork(t.Context(), ids[1], nil)
				require.NoError(t, err)
			})
			_, receipt := carryOut(t, st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
			require.Empty(t, storetest.FilesWith(t, dir))
			require.NotContains(t, storetest.JSON(t, receipt.Places), own)
			_, err = base.Fork(t.Context(), ids[1], nil)
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// A session is forked and deleted after the erase has listed the sessions and before it
// reads that one. The fork loses the entry as well.
func TestForkOfWhatVanishes(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	b, st := storetest.OpenBetween(t, dir)
	defer storetest.Close(t, st)
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	plan, err := erase.Preview(t.Context(), st, chosen(s, ids[0]))
	require.NoError(t, err)
	vanish := storetest.Once(func() {
		base, err := other.Get(t.Context(), s.Ref())
		require.NoError(t, err)
		_, err = base.Fork(t.Context(), ids[1], nil)
		require.NoError(t, err)
		require.NoError(t, other.Delete(t.Context(), s.Ref()))
	})
	b.BeforeScan = func(ref session.Ref) error {
		if ref != s.Ref() {
			return nil
		}
		return vanish(ref)
	}
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.Empty(t, storetest.FilesWith(t, dir))
	require.Len(t, storetest.ListIDs(t, st, nil), 1)
}

// A fork of a compacted session compacts again. Its second summary has read the first one,
// so it goes with an entry that the fork lacks. A second erase finds nothing.
func TestEraseInTheSecondSummaryOfAFork(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	storetest.Talk(t, s, 1, 2)
	words := &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says("A " + storetest.Word + "."))}
	require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), words)))
	head, err := storetest.Head(t.Context(), s)
	require.NoError(t, err)
	f, err := s.Fork(t.Context(), head, nil)
	require.NoError(t, err)
	for i := range 3 { // each covers no more than the first one kept
		storetest.Talk(t, f, 3+i, 1)
		require.NoError(t, storetest.ErrOf(f.Compact(t.Context(), words)))
	}
	require.Contains(t, storetest.History(t, f), storetest.Word)
	erased(t, st, chosen(s, ids[0]))
	require.Empty(t, storetest.FilesWith(t, dir))
	require.Contains(t, storetest.History(t, f), "question 5")
	plan, err := erase.Preview(t.Context(), st, chosen(s, ids[0]))
	require.NoError(t, err)
	require.Empty(t, plan.Places)
}
