package erase_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// An erase that could not look for forks, or not erase one that it has found, deletes
// no session: the same plan finds the forks again.
func TestEraseAgainFindsForks(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"look", "fork"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			b, st := storetest.OpenBetween(t, dir)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
			require.NoError(t, err)
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.NoError(t, err)
			broken := errors.New("the disk is broken")
			fails := func(session.Ref) error { return broken }
			if where == "look" {
				b.BeforeScan = fails
			} else {
				b.BeforeRewrite = fails
			}
			_, err = erase.Run(t.Context(), st, plan)
			require.ErrorIs(t, err, broken)
			b.BeforeScan, b.BeforeRewrite = nil, nil
			_, err = erase.Run(t.Context(), st, plan)
			require.NoError(t, err)
			require.Empty(t, storetest.FilesWith(t, dir))
			_, err = st.Get(t.Context(), s.Ref())
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// A session that an erase only looks at may be deleted meanwhile.
func TestEraseBesideDelete(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"plan", "erase"} {
		dir := storetest.Scratch(t)
		b, st := storetest.OpenBetween(t, dir)
		s, beside := storetest.Load(t, st, storetest.CLI), storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "beside"})
		storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
		storetest.Add(t, beside, transcript.UserText("Nothing."))
		remove := storetest.Once(func() { require.NoError(t, b.Driver.Delete(t.Context(), driver.Anywhere, beside.Ref())) })
		removes := func(ref session.Ref) error {
			if ref != beside.Ref() {
				return nil
			}
			return remove(ref)
		}
		if during == "plan" {
			b.BeforeScan = removes
		}
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
		require.NoError(t, err, during)
		b.BeforeScan = removes
		_, err = erase.Run(t.Context(), st, plan)
		require.NoError(t, err, during)
		require.Empty(t, storetest.FilesWith(t, dir))
		_, err = st.Get(t.Context(), beside.Ref())
		require.ErrorIs(t, err, fs.ErrNotExist)
		storetest.Close(t, st)
	}
}

// A fork that was archived since the plan is archived again when the erase is finished
// later. Until then every Open warns.
func TestEraseResumesForks(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	b, st := storetest.OpenBetween(t, dir)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
	require.NoError(t, err)
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.SetState(t.Context(), fork.Ref(), session.Archived, -1))
	broken := errors.New("the disk is broken")
	b.BeforeRewrite = func(ref session.Ref) error {
		row, err := b.Get(t.Context(), ref)
		if err == nil && row.Archived {
			return nil // it is restored
		}
		return broken
	}
	_, err = erase.Run(t.Context(), st, plan)
	require.ErrorIs(t, err, broken)
	storetest.Close(t, st)
	var log strings.Builder
	st = storetest.Open(t, dir, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer storetest.Close(t, st)
	require.Contains(t, log.String(), "an erase is unfinished")
	require.NoError(t, erase.Resume(t.Context(), st))
	require.Empty(t, plans(t, dir))
	require.Empty(t, storetest.FilesWith(t, dir))
	fork, err = st.Get(t.Context(), fork.Ref())
	require.NoError(t, err)
	require.Equal(t, session.Archived, storetest.Info(t, fork).State)
}

// Sessions that are deleted between the list and their scan have no words.
func TestPlanEraseBesideDeletes(t *testing.T) {
	t.Parallel()
	b, st := storetest.OpenBetween(t, storetest.Scratch(t))
	defer storetest.Close(t, st)
	for range 20 {
		s := storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: rand.Text()})
		ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
		require.NoError(t, storetest.ErrOf(s.Fork(t.Context(), ids[0], nil)))
	}
	read := map[session.Ref]bool{}
	b.BeforeScan = func(ref session.Ref) error {
		if read[ref] || len(read) == 30 {
			return nil
		}
		read[ref] = true
		return b.Driver.Delete(t.Context(), driver.Anywhere, ref)
	}
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	require.Len(t, plan.Entries, 10)
}

// Two erases of one session do not disturb each other.
func TestEraseBesideErase(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	b, st := storetest.OpenBetween(t, dir)
	defer storetest.Close(t, st)
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.UserText("Another "+storetest.Word+"."))
	for _, where := range []func(f func(session.Ref) error){
		func(f func(session.Ref) error) { b.BeforeRewrite = f },
		func(f func(session.Ref) error) { b.BeforeScan = f },
	} {
		plan, err := erase.Preview(t.Context(), st, chosen(s, ids[0]))
		require.NoError(t, err)
		where(storetest.Once(func() { erased(t, other, chosen(s, ids[1])) }))
		require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
		b.BeforeRewrite, b.BeforeScan = nil, nil
		require.Empty(t, storetest.FilesWith(t, dir))
		ids = storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.UserText("Another "+storetest.Word+"."))
	}
}

// A plan that is finished later leaves a session that has got the ID of one of its
// sessions since.
func TestEraseOfAnotherOwner(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	create := func(owner string) *session.Session {
		s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{ID: "one", Owner: owner})
		require.NoError(t, err)
		return s
	}
	gone := create("ada")
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Owner: "ada"})
	require.NoError(t, err)
	text := storetest.JSON(t, plan)
	_, err = erase.Run(t.Context(), st, plan, erasing{new([]transcript.Subject)}) // as if it were killed
	require.ErrorContains(t, err, "full")
	require.NoError(t, st.Delete(t.Context(), gone.Ref()))
	s := create("bert")
	storetest.Add(t, s, transcript.UserText("Hello."))
	require.NoError(t, erase.Resume(t.Context(), st))
	require.NoError(t, json.Unmarshal([]byte(text), &plan))
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.Contains(t, storetest.History(t, s), "Hello.")
}

// A plan of which a kill has left a part is not carried out.
func TestEraseCutPlan(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	id := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))[0]
	cut, err := st.Create(t.Context(), session.Key{Agent: "_erase"}, &session.CreateOptions{ID: "cut"})
	require.NoError(t, err)
	data := storetest.JSON(t, erase.Plan{ID: "cut", Entries: chosen(s, id).Entries})
	line := transcript.Entry{ID: "part", Batch: 2, Body: transcript.Custom{Name: "erase", Data: json.RawMessage(data)}}
	require.NoError(t, storetest.ErrOf(cut.AppendLines(t.Context(), storetest.End(t, cut), line)))
	require.NoError(t, erase.Resume(t.Context(), st))
	require.Contains(t, strings.Join(storetest.Lines(t, s), ""), storetest.Word)
}

// A session that is deleted before an erase has read it had the words that its forks and
// its base have.
func TestEraseDeletedBeforeRead(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		dir := storetest.Scratch(t)
		b, st := storetest.OpenBetween(t, dir)
		base := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, base, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
		s := base
		if !whole {
			var err error
			s, err = base.Fork(t.Context(), ids[1], nil)
			require.NoError(t, err)
		}
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
		require.NoError(t, err)
		fork, err := s.Fork(t.Context(), ids[1], nil)
		require.NoError(t, err)
		b.BeforeScan = func(ref session.Ref) error {
			if ref == s.Ref() {
				b.BeforeScan = nil
				return b.Driver.Delete(t.Context(), driver.Anywhere, ref)
			}
			return nil
		}
		if !whole {
			plan, err = erase.Preview(t.Context(), st, chosen(fork, ids[0]))
			require.NoError(t, err)
		}
		require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
		require.Nil(t, b.BeforeScan)
		require.Empty(t, storetest.FilesWith(t, dir))
		storetest.Close(t, st)
	}
}

// An erase ends although new sessions are made all the time.
func TestEraseInBusyStore(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	b, st := storetest.OpenBetween(t, dir)
	defer storetest.Close(t, st)
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	made := 0
	b.BeforeScan = func(session.Ref) error {
		made++
		require.Less(t, made, 100)
		return storetest.ErrOf(other.Create(t.Context(), storetest.CLI, nil))
	}
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.Empty(t, storetest.FilesWith(t, dir))
}

// A run that is repeated leaves a session in the trash alone if nothing of the plan is in
// it any more.
func TestEraseAgainBesideTheTrash(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), transcript.UserText("two"))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[:1]}}})
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Trashed, -1))
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
	require.Contains(t, storetest.EntryIDs(t, s), ids[1])
}

// A session that another process restores from the trash during an erase stays, and loses
// the words: restored before its deletion, and between the lists of a plan.
func TestEraseDuringARestore(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"deletion", "list"} {
		dir := storetest.Scratch(t)
		b, st := storetest.OpenBetween(t, dir)
		other := storetest.Open(t, dir, nil) // of another process
		s := storetest.Load(t, other, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.UserText("More."))
		require.NoError(t, other.SetState(t.Context(), s.Ref(), session.Trashed, -1))
		calls := map[session.Ref]int{}
		restores := func(ref session.Ref, call int) func(session.Ref) error {
			return func(of session.Ref) error {
				if calls[of]++; of == ref && calls[of] == call {
					return other.SetState(t.Context(), s.Ref(), session.Live, -1)
				}
				return nil
			}
		}
		if before == "deletion" {
			b.BeforeDelete = restores(s.Ref(), 1)
		} else {
			b.BeforeList = restores(session.Ref{Agent: s.Ref().Agent}, 2)
		}
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
		require.NoError(t, err)
		require.Len(t, plan.Entries, 1, before)
		receipt, err := erase.Run(t.Context(), st, plan)
		require.NoError(t, err, before)
		require.Len(t, receipt.Places, 1, before)
		require.Empty(t, storetest.FilesWith(t, dir), before)
		s, err = st.Get(t.Context(), s.Ref())
		require.NoError(t, err, before)
		require.Contains(t, storetest.EntryIDs(t, s), ids[1], before)
		storetest.Close(t, other)
		storetest.Close(t, st)
	}
}

// A session that another process puts into the trash and takes out again, between any two
// lists of a plan or of a run, is found.
func TestEraseBesideMoves(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"plan", "run"} {
		dir := storetest.Scratch(t)
		b, st := storetest.OpenBetween(t, dir)
		other := storetest.Open(t, dir, nil) // of another process
		s := storetest.Load(t, other, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
		calls := 0
		moves := func(of session.Ref) error {
			if of.Agent == s.Ref().Agent {
				calls++
			}
			to := session.Live
			if calls%3 == 2 {
				to = session.Trashed
			}
			err := other.SetState(t.Context(), s.Ref(), to, -1)
			if errors.Is(err, session.ErrReplaced) { // by the erase, once
				err = other.SetState(t.Context(), s.Ref(), to, -1)
			}
			return err
		}
		if during == "plan" {
			b.BeforeList = moves
		}
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
		require.NoError(t, err)
		require.Len(t, plan.Entries, 1, during)
		b.BeforeList = nil
		if during == "run" {
			b.BeforeList = moves
		}
		require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)), during)
		require.Empty(t, storetest.FilesWith(t, dir), during)
		storetest.Close(t, other)
		storetest.Close(t, st)
	}
}
