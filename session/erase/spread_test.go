package erase_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"testing"

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

func erased(t *testing.T, st *session.Store, what erase.Erasure) {
	t.Helper()
	plan, err := erase.Preview(t.Context(), st, what)
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
}

func chosen(s *session.Session, ids ...string) erase.Erasure {
	return erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids}}}
}

// hint is in summaries that tell what they have read in other words.
const hint = "a large animal that flew"

// summed makes a compaction with a summary that says the hint.
func summed(t *testing.T, s *session.Session) {
	t.Helper()
	for range 5 {
		storetest.Add(t, s, transcript.UserText("More. "+strings.Repeat("and more ", 200)), transcript.AssistantText("Go on."))
	}
	var text strings.Builder
	text.WriteString("They spoke of " + hint + ".")
	for n := range 60 {
		fmt.Fprintf(&text, " Message %d was about %x.", n, n*n*7919)
	}
	_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		return text.String(), nil
	})})
	require.NoError(t, err)
	require.Contains(t, strings.Join(storetest.Lines(t, s), ""), hint)
}

// illegible are sessions that cannot be read.
type illegible struct{ driver.Driver }

func (illegible) Scan(context.Context, driver.Ref, driver.Cursor, driver.Direction, driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, fs.ErrPermission) }
}

// A session that cannot be looked through for copies is named as one of an erase.
func TestPlanEraseUnreadable(t *testing.T) {
	t.Parallel()
	mem := memdriver.New(nil)
	s := storetest.Load(t, session.OpenDriver(mem, nil), storetest.CLI)
	id := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))[0]
	fork, err := s.Fork(t.Context(), id, nil)
	require.NoError(t, err)
	st := session.OpenDriver(illegible{mem}, nil)
	defer storetest.Close(t, st)
	for _, from := range []session.Ref{fork.Ref(), s.Ref()} {
		if from == s.Ref() {
			require.NoError(t, mem.Delete(t.Context(), driver.Anywhere, from))
		}
		_, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: from, Entries: []string{id}}}})
		require.ErrorIs(t, err, fs.ErrPermission)
		failed, _ := errors.AsType[*session.Error](err)
		require.Equal(t, "read", failed.Op)
		require.NotZero(t, failed.Session)
	}
}

// An erasure reaches the fork of a fork that was deleted.
func TestEraseMiddleDeleted(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	middle, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	_, err = middle.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.Delete(t.Context(), middle.Ref()))
	erased(t, st, chosen(s, ids[0]))
	require.Empty(t, storetest.FilesWith(t, dir))
}

// An entry that is chosen in a fork goes from all sessions that the fork descends from,
// and from their other forks, although the session between them is gone.
func TestEraseFromForkOfDeleted(t *testing.T) {
	t.Parallel()
	for _, match := range []bool{false, true} {
		dir := storetest.Scratch(t)
		st := storetest.Open(t, dir, nil)
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
		require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, "pet", json.RawMessage(`"`+storetest.Word+`"`), "")))
		end := storetest.Add(t, s, transcript.UserText("Go on."))[0]
		middle, err := s.Fork(t.Context(), end, nil)
		require.NoError(t, err)
		fork, err := middle.Fork(t.Context(), end, nil)
		require.NoError(t, err)
		require.NoError(t, storetest.ErrOf(middle.Fork(t.Context(), end, nil)))
		require.NoError(t, st.Delete(t.Context(), middle.Ref()))
		what := chosen(fork, ids[0], storetest.Entries(t, fork)[0].Standing()[0].ID)
		if match {
			what = erase.Erasure{Sessions: []session.Ref{fork.Ref()}, Match: storetest.HasWord}
		}
		plan, _ := carryOut(t, st, what)
		require.Len(t, plan.Entries, 3)
		require.Empty(t, storetest.FilesWith(t, dir))
		storetest.Close(t, st)
	}
}

// A session that goes takes its own entries from forks of a deleted fork, and nothing that
// was said there.
func TestEraseWholeBaseOfDeleted(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
	require.NoError(t, err)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	middle, err := s.Fork(t.Context(), ids[1], &session.CreateOptions{Owner: "bert"})
	require.NoError(t, err)
	own := storetest.Add(t, middle, transcript.UserText("Elsewhere."))
	fork, err := middle.Fork(t.Context(), own[0], nil)
	require.NoError(t, err)
	require.NoError(t, st.Delete(t.Context(), middle.Ref()))
	carryOut(t, st, erase.Erasure{Owner: "ada"})
	require.Empty(t, storetest.FilesWith(t, dir))
	require.Contains(t, storetest.History(t, fork), "Elsewhere.")
}

// A chapter that a fork has copied with a compaction goes with the entries that it is
// about, which the fork lacks.
func TestEraseCommitInFork(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
		kept := storetest.Add(t, s, transcript.UserText("Well."), transcript.AssistantText("Yes."))
		storetest.Add(t, s, transcript.Commit{N: 1, FirstEntry: ids[0], LastEntry: ids[1], Abstract: hint, Overview: hint},
			transcript.Compaction{Summary: hint, CoversTo: ids[1], FirstKept: kept[0]})
		end := storetest.Add(t, s, transcript.UserText("Go on."), transcript.AssistantText("Yes."))
		fork, err := s.Fork(t.Context(), end[1], nil)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(strings.Join(storetest.Lines(t, fork), ""), hint))
		if deleted {
			require.NoError(t, st.Delete(t.Context(), s.Ref()))
		}
		erased(t, st, chosen(s, ids[0]))
		require.NotContains(t, strings.Join(storetest.Lines(t, fork), ""), hint)
		again, err := erase.Preview(t.Context(), st, chosen(fork, ids[0]))
		require.NoError(t, err)
		require.Empty(t, again.Places, "it is done")
		storetest.Close(t, st)
	}
}

// A summary that a fork begins with has read an entry of which the fork has only the pin.
func TestErasePinnedInFork(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	require.NoError(t, turn.Pin(t.Context(), s, ids[0]))
	summed(t, s)
	fork, err := s.Fork(t.Context(), storetest.Add(t, s, transcript.UserText("Go on."))[0], nil)
	require.NoError(t, err)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.Contains(t, storetest.Lines(t, fork)[0], storetest.Word)
	erased(t, st, chosen(fork, ids[0]))
	text := strings.Join(storetest.Lines(t, fork), "")
	require.NotContains(t, text, storetest.Word)
	require.NotContains(t, text, hint)
}

// Data of an application goes with the entries that its words come from, also in a fork
// that lacks these.
func TestEraseCustomCovers(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.UserText("Well."), transcript.AssistantText("Yes."))
		about := func(covers ...string) string {
			data, err := json.Marshal(hint + covers[0])
			require.NoError(t, err)
			return storetest.Add(t, s, transcript.Custom{Name: "note", Data: data, Covers: covers})[0]
		}
		summed(t, s)
		goes, stays := about(ids[1], ids[0]), about(ids[1])
		end := storetest.Add(t, s, transcript.UserText("Go on."), transcript.AssistantText("Yes."))
		fork, err := s.Fork(t.Context(), end[1], nil)
		require.NoError(t, err)
		if deleted {
			require.NoError(t, st.Delete(t.Context(), s.Ref()))
		}
		plan, _ := carryOut(t, st, chosen(s, ids[0]))
		require.Contains(t, storetest.JSON(t, plan.Places), goes)
		for _, e := range storetest.Entries(t, fork) {
			if e.Type() == "custom" {
				require.Equal(t, e.ID == stays, strings.Contains(string(e.Line()), hint), "%s", e.Line())
				require.Contains(t, string(e.Line()), ids[1], "the reference stays")
			}
		}
		storetest.Close(t, st)
	}
}

// Forks that were made since the plan have copies, too, archived ones included, and a plan
// that was stored finds them as well.
func TestEraseForkedSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]func(s *session.Session, id string) erase.Erasure{
		"entries": func(s *session.Session, id string) erase.Erasure { return chosen(s, id) },
		"match":   func(*session.Session, string) erase.Erasure { return erase.Erasure{Match: storetest.HasWord} },
		"sessions": func(s *session.Session, _ string) erase.Erasure {
			return erase.Erasure{Sessions: []session.Ref{s.Ref()}}
		},
	} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " stored ", stored), func(t *testing.T) {
				t.Parallel()
				dir := storetest.Scratch(t)
				st := storetest.Open(t, dir, nil)
				defer storetest.Close(t, st)
				s := storetest.Load(t, st, storetest.CLI)
				ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
				plan, err := erase.Preview(t.Context(), st, what(s, ids[0]))
				require.NoError(t, err)
				if stored {
					text := storetest.JSON(t, plan)
					plan = erase.Plan{}
					require.NoError(t, json.Unmarshal([]byte(text), &plan))
				}
				fork, err := s.Fork(t.Context(), ids[1], nil)
				require.NoError(t, err)
				summed(t, fork)
				_, err = fork.Fork(t.Context(), storetest.Add(t, fork, transcript.UserText("Well."))[0], nil)
				require.NoError(t, err)
				archived, err := s.Fork(t.Context(), ids[1], nil)
				require.NoError(t, err)
				require.NoError(t, st.SetState(t.Context(), archived.Ref(), session.Archived, -1))
				_, err = erase.Run(t.Context(), st, plan)
				require.NoError(t, err)
				require.Empty(t, storetest.FilesWith(t, dir))
				require.NotContains(t, strings.Join(storetest.Lines(t, fork), ""), hint)
			})
		}
	}
}

// Copies of an entry are found by its ID although the session that it was said in is
// deleted, in archives too. An entry that no session has is not there.
func TestEraseBaseDeleted(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	later := storetest.Add(t, s, transcript.UserText("Later."))
	first, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	_, err = first.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	packed, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.SetState(t.Context(), packed.Ref(), session.Archived, -1))
	require.NoError(t, st.Delete(t.Context(), s.Ref()))

	_, err = erase.Preview(t.Context(), st, chosen(s, later[0]))
	require.ErrorIs(t, err, fs.ErrNotExist)
	plan, err := erase.Preview(t.Context(), st, chosen(s, ids[0], later[0]))
	require.NoError(t, err)
	require.Len(t, plan.Entries, 3)
	require.Equal(t, []session.Ref{packed.Ref()}, plan.Archived)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	require.NoError(t, st.SetState(t.Context(), packed.Ref(), session.Live, -1))
	require.Empty(t, storetest.FilesWith(t, dir))
	plan, err = erase.Preview(t.Context(), st, chosen(s, ids[0]))
	require.NoError(t, err)
	require.Empty(t, plan.Places, "it is done")
}

// A fork begins with a summary of an entry that it has no copy of, and the session that
// had it is deleted.
func TestEraseSummaryOfBaseDeleted(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	told := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	summed(t, s)
	ids := storetest.Add(t, s, transcript.UserText("Hello."), transcript.AssistantText("Hello."))
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.Contains(t, strings.Join(storetest.Lines(t, fork), ""), hint)
	erased(t, st, chosen(s, told[0]))
	require.NotContains(t, strings.Join(storetest.Lines(t, fork), ""), hint)
}

// A fork that goes takes nothing from the session that it was made of, nor from other forks
// of that, and what one says later costs the others nothing.
func TestEraseLeavesBase(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "bert"})
	require.NoError(t, err)
	summed(t, s)
	require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, "step", json.RawMessage(`1`), "")))
	ids := storetest.Add(t, s, transcript.UserText("Hello."), transcript.AssistantText("Hello."))
	fork, err := s.Fork(t.Context(), ids[1], &session.CreateOptions{Owner: "ada"})
	require.NoError(t, err)
	beside, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	later := storetest.Add(t, s, transcript.UserText("Later."), transcript.AssistantText("Yes."))
	storetest.Add(t, fork, transcript.UserText("Elsewhere."), transcript.AssistantText("Yes."))
	before := storetest.Lines(t, fork)
	erased(t, st, chosen(s, later[0]))
	require.Equal(t, before, storetest.Lines(t, fork))
	before, other := storetest.Lines(t, s), storetest.Lines(t, beside)
	erased(t, st, erase.Erasure{Owner: "ada"})
	require.Equal(t, before, storetest.Lines(t, s))
	require.Equal(t, other, storetest.Lines(t, beside))
}

// The summary that a fork begins with has read what matches in its base.
func TestEraseMatchInBase(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("Go on."), transcript.AssistantText("A "+storetest.Word+" is large."))
	summed(t, s)
	ids := storetest.Add(t, s, transcript.UserText("Hello."), transcript.AssistantText("Hello."))
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	erased(t, st, erase.Erasure{Match: storetest.HasWord})
	require.NotContains(t, strings.Join(storetest.Lines(t, s), ""), hint)
	require.NotContains(t, strings.Join(storetest.Lines(t, fork), ""), hint)
}

// A compaction that is chosen itself is erased once.
func TestEraseCompactionOnce(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	summed(t, s)
	for _, e := range storetest.Entries(t, s) {
		if e.Type() != "compaction" {
			continue
		}
		erased(t, st, chosen(s, e.ID))
		require.NotContains(t, strings.Join(storetest.Lines(t, s), ""), hint)
		again, err := erase.Preview(t.Context(), st, chosen(s, e.ID))
		require.NoError(t, err)
		require.Empty(t, again.Places)
	}
	storetest.CheckSound(t, st, s.Ref())
}

// Models read the reason of a rejection.
func TestEraseReason(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	call := transcript.ToolCallBlock{ID: "call", Name: "look_up", Input: json.RawMessage(`{}`)}
	ids := storetest.Add(t, s, transcript.UserText("Look."), transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{call}})
	require.NoError(t, turn.Decide(t.Context(), s, ids[len(ids)-1], transcript.Reject, "eve", "It is a "+storetest.Word+"."))
	storetest.Add(t, s, transcript.AssistantText("I see."))
	summed(t, s)
	for _, e := range storetest.Entries(t, s) {
		if e.Type() == "decision" {
			erased(t, st, chosen(s, e.ID))
		}
	}
	text := strings.Join(storetest.Lines(t, s), "")
	require.NotContains(t, text, storetest.Word)
	require.NotContains(t, text, hint)
}

// An erasing notes what it is asked to erase, and fails.
type erasing struct{ of *[]transcript.Subject }

func (e erasing) PlanErase(_ context.Context, s transcript.Subject) ([]transcript.Place, error) {
	*e.of = append(*e.of, s)
	return nil, nil
}

func (e erasing) Erase(_ context.Context, s transcript.Subject) ([]transcript.Place, error) {
	*e.of = append(*e.of, s)
	return nil, errors.New("the disk is full")
}

// A match that is for some sessions is for no other stores.
func TestEraseBesideSessions(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	other := erasing{new([]transcript.Subject)}
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}, Match: storetest.HasWord}, other)
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan, other)
	require.Error(t, err)
	require.Equal(t, make([]transcript.Subject, 2), *other.of)
}

// In a scope the Erasers are asked for what the owner has, whoever has made the plan.
func TestEraseBesideScope(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	other := erasing{new([]transcript.Subject)}
	for _, planned := range []*session.Store{st, ada} {
		plan, err := erase.Preview(t.Context(), planned, erase.Erasure{Match: storetest.HasWord}, other)
		require.NoError(t, err)
		_, err = erase.Run(t.Context(), ada, plan, other)
		require.ErrorContains(t, err, "full")
	}
	var owners []string
	for _, s := range *other.of {
		require.NotNil(t, s.Match)
		owners = append(owners, s.Owner)
	}
	require.Equal(t, []string{"", "ada", "ada", "ada"}, owners)
}

// A plan that a user has made up is finished in the scope of the user alone.
func TestEraseForgedThenOpened(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	theirs, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "bert"})
	require.NoError(t, err)
	ids := storetest.Add(t, theirs, transcript.UserText("Hello."), transcript.AssistantText("Hello."))
	before := storetest.Lines(t, theirs)
	none := func(transcript.Entry) bool { return false }
	for id, forged := range map[string]erase.Plan{
		"whole": {Sessions: []session.Ref{theirs.Ref()}, Archived: []session.Ref{theirs.Ref()}},
		"entry": {Entries: []erase.Selection{{Session: theirs.Ref(), Entries: ids}}},
	} {
		plan, err := erase.Preview(t.Context(), ada, erase.Erasure{Match: none})
		require.NoError(t, err)
		plan.ID, plan.Sessions, plan.Archived, plan.Entries = id, forged.Sessions, forged.Archived, forged.Entries
		_, err = erase.Run(t.Context(), ada, plan, erasing{new([]transcript.Subject)})
		require.ErrorContains(t, err, "full")
	}
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Owner: "bert"})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), ada, plan)
	require.Error(t, err, "a plan of another owner")
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	require.NotEmpty(t, plans(t, dir))
	require.NoError(t, erase.Resume(t.Context(), st))
	require.Empty(t, plans(t, dir))
	theirs, err = st.Get(t.Context(), theirs.Ref())
	require.NoError(t, err)
	require.Equal(t, before, storetest.Lines(t, theirs))
}
