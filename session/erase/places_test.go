package erase_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// carryOut plans an erasure, carries the plan out and returns what both say.
func carryOut(t *testing.T, st *session.Store, what erase.Erasure) (erase.Plan, erase.Receipt) {
	t.Helper()
	plan, err := erase.Preview(t.Context(), st, what)
	require.NoError(t, err)
	receipt, err := erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	return plan, receipt
}

// kinds are the kinds of places, in their order.
func kinds(places []transcript.Place) (all []string) {
	for _, p := range places {
		all = append(all, p.Kind)
	}
	return all
}

// A plan and the receipt of its erase name the same places, each once.
func TestErasePlaces(t *testing.T) {
	t.Parallel()
	for _, archived := range []bool{false, true} {
		st := storetest.Open(t, storetest.Scratch(t), nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("Hello."))
		id := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))[0]
		storetest.Add(t, s, storetest.Answer("Yes."), transcript.Clip{Clips: []transcript.Clipping{{Entry: id, Content: "A " + storetest.Word[:5]}}})
		value, err := turn.SetValue(t.Context(), s, storetest.Word, json.RawMessage(`1`), "")
		require.NoError(t, err)
		want := []string{"user", "clip", "value"}
		if archived {
			require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
			want = append(want, "archive")
		}
		plan, receipt := carryOut(t, st, erase.Erasure{Match: storetest.HasWord})
		require.Equal(t, want, kinds(plan.Places))
		require.Equal(t, plan.Places, receipt.Places)
		kept := []transcript.Place{{Kind: "value", Agent: s.Ref().Agent, Session: s.Ref().ID, Entry: value}}
		require.Equal(t, kept, plan.Kept, "the name of a value stays")
		require.Equal(t, kept, receipt.Kept)
		storetest.Close(t, st)
	}
}

// A value that only the header of a fork holds goes from there.
func TestEraseHeldByHeader(t *testing.T) {
	t.Parallel()
	for _, match := range []bool{false, true} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		id, err := turn.SetValue(t.Context(), s, "pet", json.RawMessage(`"`+storetest.Word+`"`), "")
		require.NoError(t, err)
		said := storetest.Add(t, s, transcript.UserText("Hello."), storetest.Answer("Hello."))
		storetest.Talk(t, s, 0, 3)
		require.NoError(t, s.Rewind(t.Context(), said[1]))
		fork, err := s.Fork(t.Context(), said[0], nil)
		require.NoError(t, err)
		require.NoError(t, st.Delete(t.Context(), s.Ref()))
		require.Contains(t, storetest.Lines(t, fork)[0], storetest.Word)
		what := chosen(fork, id)
		if match {
			what = erase.Erasure{Match: storetest.HasWord}
		}
		plan, _ := carryOut(t, st, what)
		require.Contains(t, kinds(plan.Places), "standing")
		require.NotContains(t, strings.Join(storetest.Lines(t, fork), ""), storetest.Word)
		storetest.Close(t, st)
	}
}

// The line that an entry was imported from goes from every entry of the session, and is no
// reason to erase anything.
func TestEraseSources(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	imported := transcript.Entry{ID: "imported", Time: time.Unix(1_700_000_000, 0).UTC(), Body: transcript.Custom{Name: "n", Data: json.RawMessage(`{}`)}}.WithSource([]byte("as it was"))
	require.NoError(t, storetest.ErrOf(s.AppendLines(t.Context(), storetest.End(t, s), imported)))
	id := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))[0]
	before := storetest.Lines(t, s)
	plan, _ := carryOut(t, st, chosen(s, "imported of another session"))
	require.Empty(t, plan.Places)
	require.Equal(t, before, storetest.Lines(t, s))
	plan, _ = carryOut(t, st, chosen(s, id))
	require.Equal(t, []string{"user", "source"}, kinds(plan.Places))
	require.NotContains(t, strings.Join(storetest.Lines(t, s), ""), "as it was")
}

// The hash of an append that is not touched stays, also in front of one without a key.
func TestEraseOtherHash(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	require.NoError(t, storetest.ErrOf(s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("one"))))
	storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
	carryOut(t, st, erase.Erasure{Match: storetest.HasWord})
	require.ErrorIs(t, storetest.ErrOf(s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("two"))), session.ErrIdemMismatch)
}

// A compaction loses the items that it has carried, and its summary stays if it has read
// nothing of what goes.
func TestEraseCarriedAlone(t *testing.T) {
	t.Parallel()
	for _, covered := range []string{"", "elsewhere"} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("one"), transcript.UserText("two"))
		carryOut(t, st, chosen(s, ids[1]))
		if covered == "" {
			covered = ids[0]
		}
		storetest.Add(t, s, transcript.Compaction{Summary: "They talked.", CoversTo: covered, Said: []transcript.Carried{{Entry: ids[1], Text: "of it"}}})
		plan, receipt := carryOut(t, st, chosen(s, ids[1]))
		require.Equal(t, []string{"carried"}, kinds(plan.Places))
		require.Equal(t, plan.Places, receipt.Places)
		text := strings.Join(storetest.Lines(t, s), "")
		require.NotContains(t, text, "of it")
		require.Contains(t, text, "They talked.")
		storetest.Close(t, st)
	}
}

// A short answer that is carried loses the question if that goes, and stays.
func TestEraseCarriedQuestion(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), transcript.AssistantText("Red or blue?"), transcript.UserText("blue"), transcript.AssistantText("yes"))
	storetest.Add(t, s, transcript.Compaction{
		Summary: "They talked.", CoversTo: ids[0],
		Said:  []transcript.Carried{{Entry: ids[2], Text: "blue", To: "Red or blue?", ToEntry: ids[1]}},
		Rules: []transcript.Carried{{Entry: ids[1], Text: "Never red.", Path: "AGENTS.md"}},
	})
	plan, _ := carryOut(t, st, chosen(s, ids[1]))
	require.Equal(t, []string{"assistant", "carried"}, kinds(plan.Places))
	text := strings.Join(storetest.Lines(t, s), "")
	require.NotContains(t, text, "Red or blue?")
	require.NotContains(t, text, "Never red.")
	require.Contains(t, text, `"said":[{"entry":"`+ids[2]+`","text":"blue"}]`)
}

// A summary that goes takes no items with it.
func TestEraseSummaryAlone(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), transcript.UserText("two"))
	storetest.Add(t, s, transcript.Compaction{Summary: "They talked.", CoversTo: ids[1], Said: []transcript.Carried{{Entry: ids[0], Text: "of it"}}})
	plan, _ := carryOut(t, st, chosen(s, ids[1]))
	require.Equal(t, []string{"user", "summary"}, kinds(plan.Places))
	text := strings.Join(storetest.Lines(t, s), "")
	require.Contains(t, text, "of it")
	require.NotContains(t, text, "They talked.")
}

// Behind an entry that goes, what may repeat it goes too, and what cannot stays.
func TestEraseBehind(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("before"), transcript.UserText("it"), transcript.UserText("behind"))
	var stays, goes []string
	add := func(list *[]string, kind string, item transcript.Item) {
		*list = append(*list, kind+" "+storetest.Add(t, s, item)[0])
	}
	commit := func(last string) transcript.Item {
		return transcript.Commit{N: 1, FirstEntry: ids[0], LastEntry: last, Abstract: "They talked.", Overview: "They talked."}
	}
	add(&stays, "", commit(ids[0]))
	add(&goes, "abstract", commit(ids[1]))
	add(&goes, "abstract", commit(ids[2]))
	add(&goes, "abstract", commit("elsewhere"))
	add(&stays, "", transcript.Extracted{Commit: ids[0]})
	add(&goes, "extracted", transcript.Extracted{Commit: ids[0], Err: "it"})
	add(&stays, "", transcript.Clip{Clips: []transcript.Clipping{{Entry: ids[0], Content: "bef"}}})
	add(&goes, "clip", transcript.Clip{Clips: []transcript.Clipping{{Entry: ids[0], Content: "bef"}, {Entry: ids[1], Content: "i"}}})
	add(&stays, "", storetest.Answer("Yes."))
	lines := func() (list []string) {
		for _, e := range storetest.Entries(t, s) {
			if slices.Contains(stays, " "+e.ID) {
				list = append(list, string(e.Line()))
			}
		}
		return list
	}
	before := lines()
	require.Len(t, before, len(stays))
	plan, _ := carryOut(t, st, chosen(s, ids[1]))
	var got []string
	for _, p := range plan.Places[1:] {
		got = append(got, p.Kind+" "+p.Entry)
	}
	require.Equal(t, goes, got)
	require.Equal(t, before, lines())
	require.Contains(t, strings.Join(storetest.Lines(t, s), ""), `"bef"`)
	plan, err := erase.Preview(t.Context(), st, chosen(s, ids[1]))
	require.NoError(t, err)
	require.Empty(t, plan.Places, "it is done")
}

// An entry that is chosen takes with it those that say the same.
func TestEraseWhatSaysTheSame(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	said := storetest.Add(t, s, transcript.UserText("Look."), storetest.Answer("", "c"))
	call := said[len(said)-1]
	require.NoError(t, turn.Decide(t.Context(), s, call, transcript.Hold, "eve", "It says too much."))
	require.NoError(t, turn.Pin(t.Context(), s, said[0]))
	queued, err := turn.Queue(t.Context(), s, transcript.UserText("And then?"))
	require.NoError(t, err)
	drained, err := turn.Drain(t.Context(), s, 0)
	require.NoError(t, err)
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	for _, text := range []string{"one\n", "two\n"} {
		require.NoError(t, d.Write(t.Context(), text))
		require.NoError(t, d.Flush(t.Context()))
	}
	var drafts []string
	for _, e := range storetest.Entries(t, s) {
		if e.Type() == "draft" {
			drafts = append(drafts, e.ID)
		}
	}
	require.Len(t, drafts, 2)
	answer, err := d.Finish(t.Context(), storetest.Answer("one\ntwo\n"))
	require.NoError(t, err)
	require.NoError(t, tn.End())
	last := func(kind string) string {
		all := storetest.Entries(t, s)
		return all[slices.IndexFunc(all, func(e transcript.Entry) bool { return e.Type() == kind })].ID
	}
	for _, group := range [][]string{{said[0], last("pin")}, {last("pin"), said[0]}, {queued, drained[0]}, {drained[0], queued}, {call, last("decision")}, drafts, {answer[0], drafts[0], drafts[1]}} {
		plan, err := erase.Preview(t.Context(), st, chosen(s, group[0]))
		require.NoError(t, err)
		require.Len(t, plan.Entries, 1)
		require.ElementsMatch(t, group, plan.Entries[0].Entries)
	}
	plan, err := erase.Preview(t.Context(), st, chosen(s, last("decision")))
	require.NoError(t, err)
	require.Equal(t, []string{last("decision")}, plan.Entries[0].Entries, "a call stays without its decision")
}

// A read that fails is an error of a plan and of an erase, whichever of their reads it is,
// and the same plan is carried out later.
func TestEraseUnreadable(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is broken")
	for name, what := range map[string]func(s *session.Session, ids []string) erase.Erasure{
		"entries": func(s *session.Session, ids []string) erase.Erasure { return chosen(s, ids[0]) },
		"match":   func(*session.Session, []string) erase.Erasure { return erase.Erasure{Match: storetest.HasWord} },
	} {
		for _, stage := range []string{"plan", "erase"} {
			failed := true
			for due := 1; failed; due += storetest.Extent(*storetest.Faults, 3, 1, 1) {
				dir := storetest.Scratch(t)
				b, st := storetest.OpenBetween(t, dir)
				s := storetest.Load(t, st, storetest.CLI)
				ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), storetest.Answer("Yes."))
				fork, err := s.Fork(t.Context(), ids[1], nil)
				require.NoError(t, err)
				require.NoError(t, storetest.ErrOf(fork.Fork(t.Context(), ids[1], nil)))
				if due%2 == 0 {
					require.NoError(t, st.Delete(t.Context(), fork.Ref()))
				}
				reads := 0
				fails := func(session.Ref) error {
					if reads++; reads == due {
						return broken
					}
					return nil
				}
				if stage == "plan" {
					b.BeforeScan = fails
				}
				plan, err := erase.Preview(t.Context(), st, what(s, ids))
				if stage == "erase" {
					require.NoError(t, err)
					b.BeforeScan = fails
					_, err = erase.Run(t.Context(), st, plan)
				}
				failed = reads >= due
				require.Equal(t, failed, errors.Is(err, broken), "%s, %s, read %d: %v", name, stage, due, err)
				if b.BeforeScan = nil; failed {
					require.ErrorContains(t, err, "erase: ")
				}
				if stage == "plan" {
					plan, err = erase.Preview(t.Context(), st, what(s, ids))
					require.NoError(t, err)
				}
				_, err = erase.Run(t.Context(), st, plan)
				if errors.Is(err, session.ErrReplaced) { // by the try that failed
					_, err = erase.Run(t.Context(), st, plan)
				}
				require.NoError(t, err, "%s, %s, read %d", name, stage, due)
				require.Empty(t, storetest.FilesWith(t, dir))
				storetest.Close(t, st)
			}
		}
	}
}

// A session that cannot be erased is tried once in an erase, and named once.
func TestEraseTriesOnce(t *testing.T) {
	t.Parallel()
	b, st := storetest.OpenBetween(t, storetest.Scratch(t))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	tries := 0
	b.BeforeRewrite = func(session.Ref) error {
		tries++
		return errors.New("the disk is full")
	}
	_, err = erase.Run(t.Context(), st, plan)
	require.ErrorContains(t, err, "the disk is full")
	require.Equal(t, 1, tries)
}

// A plan that cannot be stored erases nothing.
func TestErasePlanNotStored(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	plan.At = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such year
	require.ErrorContains(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)), "year")
	require.Contains(t, strings.Join(storetest.Lines(t, s), ""), storetest.Word)
}

// While a plan is carried out nobody else carries it out.
func TestEraseBusy(t *testing.T) {
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
	tried := false
	b.BeforeRewrite = storetest.Once(func() {
		tried = true
		require.ErrorIs(t, storetest.ErrOf(erase.Run(t.Context(), other, plan)), session.ErrBusy)
		require.NoError(t, erase.Resume(t.Context(), other))
		require.NotEmpty(t, storetest.FilesWith(t, dir))
	})
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.True(t, tried)
	require.Empty(t, storetest.FilesWith(t, dir))
}
