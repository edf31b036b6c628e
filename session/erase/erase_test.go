package erase_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// plant makes a session with the word in every kind of line that can say it, and
// returns it.
func plant(t *testing.T, st *session.Store, k session.Key) *session.Session {
	t.Helper()
	ctx := t.Context()
	s, err := st.Create(ctx, k, &session.CreateOptions{Owner: "ada"})
	require.NoError(t, err)
	storetest.Add(t, s, transcript.UserText("Good morning."), transcript.AssistantText("Good morning."))
	first := storetest.Add(t, s, transcript.UserText("My pet is a "+storetest.Word+"."))[0]
	thinking := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ThinkingBlock{Thinking: "They have a " + storetest.Word + ".", Signature: "sig"},
		transcript.TextBlock{Text: "A " + storetest.Word + " is large."},
		transcript.ToolCallBlock{ID: "call", Name: "look_up", Input: json.RawMessage(`{"name":"` + storetest.Word + `"}`)},
	}}
	_, err = s.AppendIf(ctx, session.Cond{Idem: "answer"}, &transcript.Response{Message: thinking, API: "anthropic", Model: "m", StopReason: transcript.StopToolUse})
	require.NoError(t, err)
	result := storetest.Add(t, s, transcript.ToolResult("call", "The "+storetest.Word+" had wings of ten metres. "+strings.Repeat("Long. ", 50)))[0]
	storetest.Add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: result, Content: "The " + storetest.Word + " had wings [clipped]"}}})
	storetest.Add(t, s, transcript.AssistantText("It could fly."))
	require.NoError(t, turn.Pin(ctx, s, first))
	_, err = turn.SetValue(ctx, s, "pet", json.RawMessage(`"`+storetest.Word+`"`), "")
	require.NoError(t, err)
	_, err = turn.Queue(ctx, s, transcript.UserText("And my "+storetest.Word+" is hungry."))
	require.NoError(t, err)
	storetest.Add(t, s, transcript.Custom{Name: "note", Data: json.RawMessage(`{"about":"` + storetest.Word + `"}`)})
	storetest.Add(t, s, transcript.WithApp(transcript.UserText("What does it eat?"), json.RawMessage(`{"pet":"`+storetest.Word+`"}`)))
	tn, err := turn.Begin(ctx, s)
	require.NoError(t, err)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	for _, part := range []string{"A ", storetest.Word[:5], storetest.Word[5:], " eats fish."} { // no line has all of it
		require.NoError(t, d.Write(ctx, part))
		require.NoError(t, d.Flush(ctx))
	}
	require.NoError(t, tn.End())
	done, err := s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	require.Contains(t, storetest.JSON(t, done.Compaction), storetest.Word)
	require.NoError(t, s.SetMeta(ctx, transcript.Meta{Title: new("My " + storetest.Word), Labels: []string{storetest.Word}}))
	storetest.Add(t, s, transcript.UserText("Thank you."), transcript.AssistantText("You are welcome."))
	return s
}

func TestEraseWord(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"match", "entries", "session", "owner"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			st := storetest.Open(t, dir, nil)
			s := plant(t, st, storetest.CLI)
			end, err := storetest.Head(t.Context(), s)
			require.NoError(t, err)
			fork, err := s.Fork(t.Context(), end, nil)
			require.NoError(t, err)
			other := storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "other"})
			storetest.Add(t, other, transcript.UserText("Nothing about pets."), transcript.AssistantText("Fine."))
			before := storetest.Lines(t, other)
			old, err := s.Fork(t.Context(), end, &session.CreateOptions{ID: "old"})
			require.NoError(t, err)
			require.NoError(t, st.SetState(t.Context(), old.Ref(), session.Archived, -1))
			require.NotEmpty(t, storetest.FilesWith(t, dir))

			what := erase.Erasure{Match: storetest.HasWord}
			switch target {
			case "session":
				what = erase.Erasure{Sessions: []session.Ref{s.Ref()}}
			case "owner":
				what = erase.Erasure{Owner: "ada"}
			case "entries":
				what = erase.Erasure{}
				for _, s := range []*session.Session{s, fork, old} {
					var ids []string
					for e, err := range s.Entries(t.Context(), "") {
						require.NoError(t, err)
						if _, draft := e.Body.(transcript.Draft); draft || storetest.HasWord(e) {
							ids = append(ids, e.ID)
						}
					}
					what.Entries = append(what.Entries, erase.Selection{Session: s.Ref(), Entries: ids})
				}
			}
			plan, err := erase.Preview(t.Context(), st, what)
			require.NoError(t, err)
			require.NotEmpty(t, plan.Places)
			text, err := json.Marshal(plan)
			require.NoError(t, err)
			require.NotContains(t, string(text), storetest.Word)
			require.NotEmpty(t, storetest.FilesWith(t, dir), "a plan changes nothing")
			report, err := erase.Run(t.Context(), st, plan)
			require.NoError(t, err)
			require.False(t, report.Done.IsZero())
			require.NotEmpty(t, report.Beyond)
			require.Empty(t, report.Kept)
			require.Empty(t, storetest.FilesWith(t, dir))
			require.Equal(t, before, storetest.Lines(t, other))

			again, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
			require.NoError(t, err)
			require.Empty(t, again.Places)
			infos, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
			require.NoError(t, err)
			require.Len(t, infos, map[string]int{"match": 4, "entries": 4, "session": 3, "owner": 1}[target])
			for _, info := range infos {
				if info.State == session.Archived {
					require.NoError(t, st.SetState(t.Context(), info.Ref, session.Live, -1))
				}
				require.Equal(t, info.ID == "old", info.State == session.Archived)
			}
			for _, info := range infos {
				storetest.CheckSound(t, st, info.Ref)
			}
			storetest.Close(t, st)
			require.Empty(t, storetest.FilesWith(t, dir), "a row that was put at Close")
			st = storetest.Open(t, dir, nil)
			defer storetest.Close(t, st)
			for _, info := range infos {
				storetest.CheckSound(t, st, info.Ref)
			}
			require.Empty(t, storetest.FilesWith(t, dir))
		})
	}
}

func TestEraseMemory(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := plant(t, st, storetest.CLI)
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	for _, line := range storetest.Lines(t, s) {
		require.NotContains(t, line, storetest.Word)
	}
	infos, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(infos), storetest.Word)
	storetest.CheckSound(t, st, s.Ref())
}

// Another process that uses the session keeps nothing of what it knew, loses
// nothing that it appends meanwhile, and puts no old row at its end.
func TestEraseBesideAnother(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := storetest.Scratch(t)
	st, other := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := plant(t, st, storetest.CLI)
	there, err := other.Get(ctx, s.Ref())
	require.NoError(t, err)
	storetest.Add(t, there, transcript.UserText("From here. "+storetest.Word))
	plan, err := erase.Preview(ctx, st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	late := storetest.Add(t, there, transcript.UserText("After the plan: "+storetest.Word))[0]

	var wg sync.WaitGroup
	var said []string
	wg.Go(func() {
		for n := range 40 {
			text := fmt.Sprint("meanwhile ", n)
			_, err := there.Append(ctx, transcript.UserText(text))
			if errors.Is(err, session.ErrReplaced) {
				_, err = there.Append(ctx, transcript.UserText(text))
			}
			if err != nil {
				t.Error(err)
				return
			}
			said = append(said, text)
		}
	})
	report, err := erase.Run(ctx, st, plan)
	require.NoError(t, err)
	wg.Wait()
	require.Empty(t, storetest.FilesWith(t, dir))
	require.Contains(t, fmt.Sprint(report.Places), late)
	all := strings.Join(storetest.Lines(t, s), "\n")
	for _, text := range said {
		require.Equal(t, 1, strings.Count(all, `"`+text+`"`), text)
	}
	storetest.Close(t, other)
	require.Empty(t, storetest.FilesWith(t, dir), "the other process put an old row")
	storetest.CheckSound(t, st, s.Ref())
}

// Reasoning that was signed behind an erased entry would be refused there, and
// may say again what was erased. That from before it stays.
func TestEraseReasoning(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	thought := func(text string) *transcript.Response {
		return &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: text, Signature: text}, transcript.TextBlock{Text: "Yes."},
		}}}
	}
	storetest.Add(t, s, transcript.UserText("one"), thought("first"))
	id := storetest.Add(t, s, transcript.UserText("two"))[0]
	storetest.Add(t, s, thought("second"), transcript.UserText("three"), thought("third"))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{id}}}})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	text := strings.Join(storetest.Lines(t, s), "\n")
	require.Contains(t, text, `"first"`)
	require.NotContains(t, text, `"second"`)
	require.NotContains(t, text, `"third"`)
	require.Equal(t, 3, strings.Count(text, "Yes."))
	require.Contains(t, text, transcript.ErasedText)
	require.Contains(t, text, "three")
}

// An item that a compaction has carried is shown in front of later reasoning, also where
// its entry was erased before.
func TestEraseCarriedAgain(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	id := storetest.Add(t, s, transcript.UserText("one"))[0]
	storetest.Add(t, s, transcript.AssistantText("Yes."))
	erasure := erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{id}}}}
	again := func() {
		plan, err := erase.Preview(t.Context(), st, erasure)
		require.NoError(t, err)
		_, err = erase.Run(t.Context(), st, plan)
		require.NoError(t, err)
	}
	again()
	storetest.Add(t, s, transcript.Compaction{Summary: "They talked.", CoversTo: id, Said: []transcript.Carried{{Entry: id, Text: transcript.ErasedText}}})
	storetest.Add(t, s, transcript.UserText("two"), &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "Hm.", Signature: "signed"}, transcript.TextBlock{Text: "No."}},
	}})
	again()
	text := strings.Join(storetest.Lines(t, s), "\n")
	require.NotContains(t, text, `"said"`)
	require.NotContains(t, text, "signed")
}

// A summary that has read what is erased is made again, of the rest.
func TestEraseSummary(t *testing.T) {
	t.Parallel()
	opts := &session.Options{Compact: compact.Options{Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		var text strings.Builder
		text.WriteString("They said that the pet is a " + storetest.Word + " and that the house is blue.")
		for n := range 30 {
			fmt.Fprintf(&text, " Message %d was about %x.", n, n*n*7919)
		}
		return text.String(), nil
	})}}
	st := session.OpenDriver(memdriver.New(nil), opts)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("The house is blue."), transcript.AssistantText("Noted."))
	storetest.Add(t, s, transcript.UserText("My pet is a "+storetest.Word+"."), transcript.AssistantText("Noted, too."))
	for range 30 {
		storetest.Add(t, s, transcript.UserText("More. "+strings.Repeat("and more ", 200)), transcript.AssistantText("Go on."))
	}
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Tokens: 2000}, Summarizer: opts.Compact.Summarizer})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	h, err := s.History(t.Context())
	if errors.Is(err, session.ErrReplaced) {
		h, err = s.History(t.Context())
	}
	require.NoError(t, err)
	text := storetest.JSON(t, h)
	require.NotContains(t, text, storetest.Word)
	require.Contains(t, text, "The house is blue.")
}

func TestEraseRefuses(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	_, err := erase.Preview(t.Context(), st, erase.Erasure{})
	require.ErrorContains(t, err, "nothing was erased")
	_, err = erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{{Agent: "main", ID: "nobody"}}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = erase.Run(t.Context(), st, erase.Plan{})
	require.ErrorContains(t, err, "nothing was erased")
}

// An error says which session could not be erased.
func TestEraseErrorOfASession(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	var fail error
	st := session.OpenDriver(memdriver.New(&memdriver.Options{Fail: func(op string, _ session.Ref) error {
		if strings.HasPrefix(op, "Rewrite") {
			return fail
		}
		return nil
	}}), nil)
	defer storetest.Close(t, st)
	s := plant(t, st, storetest.CLI)
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	fail = full
	_, err = erase.Run(t.Context(), st, plan)
	require.ErrorIs(t, err, full)
	own, ok := errors.AsType[*session.Error](err)
	require.True(t, ok)
	require.Equal(t, s.Ref(), own.Session)
}

// A stored plan does not know its Erasure, so it must not pass for done with the
// Erasers.
func TestEraseStoredPlan(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
	require.NoError(t, err)
	planned, err := erase.Preview(t.Context(), st, erase.Erasure{Owner: "ada"})
	require.NoError(t, err)
	var plan erase.Plan
	require.NoError(t, json.Unmarshal([]byte(storetest.JSON(t, planned)), &plan))
	_, err = erase.Run(t.Context(), st, plan, noEraser{})
	require.ErrorContains(t, err, "plan again")
	_, err = st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	_, err = st.Get(t.Context(), s.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// noEraser has no data.
type noEraser struct{}

func (noEraser) PlanErase(context.Context, transcript.Subject) ([]transcript.Place, error) {
	return nil, nil
}

func (noEraser) Erase(context.Context, transcript.Subject) ([]transcript.Place, error) {
	return nil, nil
}

// The hash of a batch is made of what all its lines say, so it goes with any of
// them, also from the keys that a compaction holds, and the header of a fork never has it; a
// retry is found as repeated all the same.
func TestEraseHash(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, storetest.Scratch(t), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	items := []transcript.Item{transcript.UserText("one"), transcript.UserText(storetest.Word)}
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	hash := transcript.IdemHash(storetest.Entries(t, s)[1:])
	storetest.Talk(t, s, 0, 3)
	compacted, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(strings.Join(storetest.Lines(t, s), ""), hash), "the line and the compaction")
	f, err := s.Fork(t.Context(), compacted.Entry, nil)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(storetest.Lines(t, f), ""), hash)
	first, err := f.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: done.IDs[:1], Repeated: true}, first, "the fork has the key alone")
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(storetest.Lines(t, s), ""), hash)
	again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: done.IDs, Repeated: true}, again)
}

// Sessions of a newer program are not touched.
func TestEraseNewerFormat(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	end := int64(0)
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		end = rec.End
	}
	e, err := transcript.ParseEntry([]byte(`{"type":"hologram","id":"x","critical":true,"text":"` + storetest.Word + `"}`))
	require.NoError(t, err)
	_, err = s.AppendLines(t.Context(), end, e)
	require.NoError(t, err)
	_, err = erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
	require.ErrorIs(t, err, session.ErrNewerFormat)
}

// A blob goes with the last line that names it.
func TestEraseBlob(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, &session.Options{Filters: []session.Filter{blobs.Filter(blobs.Folder(dir), nil)}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	picture := func(seed uint64) transcript.Message {
		return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(15_000, seed)}}
	}
	one := storetest.Add(t, s, picture(1))[0]
	storetest.Add(t, s, picture(2), transcript.AssistantText("Nice."))
	again := storetest.Add(t, s, picture(1))[0]
	files := func() int {
		all, err := blobs.Folder(dir).List(t.Context(), s.Ref())
		require.NoError(t, err)
		return len(all)
	}
	remove := func(id string) string {
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{id}}}})
		require.NoError(t, err)
		_, err = erase.Run(t.Context(), st, plan)
		require.NoError(t, err)
		return storetest.JSON(t, plan.Places)
	}
	require.Equal(t, 2, files())
	require.NotContains(t, remove(one), `"blob"`)
	require.Equal(t, 2, files())
	require.Contains(t, remove(again), `"blob"`)
	require.Equal(t, 1, files())
	require.Contains(t, storetest.History(t, s), storetest.Screenshot(15_000, 2).Source.Data)
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
	require.NoError(t, err)
	require.Contains(t, storetest.JSON(t, plan.Places), `"blob"`)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	require.Zero(t, files())
}

// An erase whose blobs could not be removed removes them when it is called again, also
// if the session was archived meanwhile.
func TestEraseBlobAgain(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is full")
	kept := &storetest.Watched{Blobs: blobs.Memory()}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{blobs.Filter(kept, nil)}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	id := storetest.Add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(15_000, 1)}})[0]
	plan, err := erase.Preview(t.Context(), st, chosen(s, id))
	require.NoError(t, err)
	kept.Fail = func(op string) error {
		if op == "delete" {
			return failed
		}
		return nil
	}
	_, err = erase.Run(t.Context(), st, plan)
	require.ErrorIs(t, err, failed)
	kept.Fail = nil
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1)) // nothing is appended to it any more
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	hashes, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Empty(t, hashes)
	require.True(t, storetest.Info(t, s).State == session.Archived)
}

// A session that was never made because its process was killed leaves no word behind an
// erase, although nothing in the store speaks of it.
func TestEraseOfAKilledCreate(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	storetest.Load(t, st, storetest.CLI)
	temp := filepath.Join(dir, "agents/main/sessions/half.jsonl.tmp-0123456789abcdef")
	require.NoError(t, os.WriteFile(temp, []byte(storetest.Word), 0o600))
	erased(t, st, erase.Erasure{Owner: "ada"})
	require.Empty(t, storetest.FilesWith(t, dir))
}
