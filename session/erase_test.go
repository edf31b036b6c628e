package session_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// word is what a person has said, and what nobody is to find.
const word = "Quetzalcoatlus"

// has reports whether an entry says the word.
func has(e transcript.Entry) bool { return bytes.Contains(e.Line(), []byte(word)) }

// plant makes a session with the word in every kind of line that can say it, and
// returns it.
func plant(t *testing.T, st *session.Store, k session.Key) *session.Session {
	t.Helper()
	ctx := t.Context()
	s, err := st.Create(ctx, k, &session.CreateOptions{Owner: "ada"})
	require.NoError(t, err)
	add(t, s, transcript.UserText("Good morning."), transcript.AssistantText("Good morning."))
	first := add(t, s, transcript.UserText("My pet is a "+word+"."))[0]
	thinking := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ThinkingBlock{Thinking: "They have a " + word + ".", Signature: "sig"},
		transcript.TextBlock{Text: "A " + word + " is large."},
		transcript.ToolCallBlock{ID: "call", Name: "look_up", Input: json.RawMessage(`{"name":"` + word + `"}`)},
	}}
	_, err = s.AppendIf(ctx, session.Cond{Idem: "answer"}, &transcript.Response{Message: thinking, API: "anthropic", Model: "m", StopReason: transcript.StopToolUse})
	require.NoError(t, err)
	result := add(t, s, transcript.ToolResult("call", "The "+word+" had wings of ten metres. "+strings.Repeat("Long. ", 50)))[0]
	add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: result, Content: "The " + word + " had wings [clipped]"}}})
	add(t, s, transcript.AssistantText("It could fly."))
	require.NoError(t, s.Pin(ctx, first))
	_, err = s.SetState(ctx, "pet", json.RawMessage(`"`+word+`"`), "")
	require.NoError(t, err)
	_, err = s.Queue(ctx, transcript.UserText("And my "+word+" is hungry."))
	require.NoError(t, err)
	add(t, s, transcript.Custom{Name: "note", Data: json.RawMessage(`{"about":"` + word + `"}`)})
	add(t, s, transcript.WithApp(transcript.UserText("What does it eat?"), json.RawMessage(`{"pet":"`+word+`"}`)))
	turn, err := s.BeginTurn(ctx)
	require.NoError(t, err)
	d := turn.Draft("anthropic", "m", transcript.Made{})
	for _, part := range []string{"A ", word[:5], word[5:], " eats fish."} { // no line has all of it
		require.NoError(t, d.Write(ctx, part))
		require.NoError(t, d.Flush(ctx))
	}
	require.NoError(t, turn.End())
	done, err := s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	require.Contains(t, toJSON(t, done.Compaction), word)
	require.NoError(t, s.SetMeta(ctx, transcript.Meta{Title: new("My " + word), Labels: []string{word}}))
	add(t, s, transcript.UserText("Thank you."), transcript.AssistantText("You are welcome."))
	return s
}

// filesWith returns the files below a folder that hold the word, wherever they are.
func filesWith(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".gz") {
			if bytes.Contains(data, []byte(word)) { // the row is in front
				files = append(files, path)
			}
			z, err := gzip.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			data, err = io.ReadAll(z)
			require.NoError(t, err)
		}
		if err == nil && bytes.Contains(data, []byte(word)) || strings.Contains(path, word) {
			files = append(files, path)
		}
		return err
	})
	require.NoError(t, err)
	return files
}

// sound checks that a session loads, that its history is one that the fold does
// not change, and that it goes on.
func sound(t *testing.T, st *session.Store, ref session.Ref) {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	add(t, s, transcript.AssistantText("Yes."), transcript.UserText("Go on."))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Empty(t, wiretest.Validate(transcript.Request{Messages: h.Messages}))
	full, err := s.FullHistory(t.Context())
	require.NoError(t, err)
	require.Empty(t, wiretest.Validate(transcript.Request{Messages: full.Messages}))
	health, err := s.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, health.Damage)
}

func TestEraseWord(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"match", "entries", "session", "owner"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			dir := scratch(t)
			st := open(t, dir, nil)
			s := plant(t, st, cli)
			end, err := s.Head(t.Context())
			require.NoError(t, err)
			fork, err := s.Fork(t.Context(), end, nil)
			require.NoError(t, err)
			other := load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "other"})
			add(t, other, transcript.UserText("Nothing about pets."), transcript.AssistantText("Fine."))
			before := records(t, other)
			old, err := s.Fork(t.Context(), end, &session.CreateOptions{ID: "old"})
			require.NoError(t, err)
			require.NoError(t, st.Archive(t.Context(), old.Ref()))
			require.NotEmpty(t, filesWith(t, dir))

			what := session.Erasure{Match: has}
			switch target {
			case "session":
				what = session.Erasure{Sessions: []session.Ref{s.Ref()}}
			case "owner":
				what = session.Erasure{Owner: "ada"}
			case "entries":
				what = session.Erasure{}
				for _, s := range []*session.Session{s, fork, old} {
					var ids []string
					for e, err := range s.Entries(t.Context()) {
						require.NoError(t, err)
						if _, draft := e.Body.(transcript.Draft); draft || has(e) {
							ids = append(ids, e.ID)
						}
					}
					what.Entries = append(what.Entries, session.Selection{Session: s.Ref(), Entries: ids})
				}
			}
			plan, err := st.PlanErase(t.Context(), what)
			require.NoError(t, err)
			require.NotEmpty(t, plan.Places)
			text, err := json.Marshal(plan)
			require.NoError(t, err)
			require.NotContains(t, string(text), word)
			require.NotEmpty(t, filesWith(t, dir), "a plan changes nothing")
			report, err := st.Erase(t.Context(), plan)
			require.NoError(t, err)
			require.NotEmpty(t, report.Beyond)
			require.Empty(t, report.Kept)
			require.Empty(t, filesWith(t, dir))
			require.Equal(t, before, records(t, other))

			again, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
			require.NoError(t, err)
			require.Empty(t, again.Places)
			infos, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
			require.NoError(t, err)
			require.Len(t, infos, map[string]int{"match": 4, "entries": 4, "session": 3, "owner": 1}[target])
			for _, info := range infos {
				if info.State == session.Archived {
					require.NoError(t, st.Restore(t.Context(), info.Ref))
				}
				require.Equal(t, info.ID == "old", info.State == session.Archived)
			}
			for _, info := range infos {
				sound(t, st, info.Ref)
			}
			closed(t, st)
			require.Empty(t, filesWith(t, dir), "a row that was put at Close")
			st = open(t, dir, nil)
			defer closed(t, st)
			for _, info := range infos {
				sound(t, st, info.Ref)
			}
			require.Empty(t, filesWith(t, dir))
		})
	}
}

func records(t *testing.T, s *session.Session) (lines []string) {
	t.Helper()
	for e, err := range s.Entries(t.Context()) {
		require.NoError(t, err)
		lines = append(lines, string(e.Line()))
	}
	return lines
}

func TestEraseMemory(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, st)
	s := plant(t, st, cli)
	plan, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
	require.NoError(t, err)
	_, err = st.Erase(t.Context(), plan)
	require.NoError(t, err)
	for _, line := range records(t, s) {
		require.NotContains(t, line, word)
	}
	infos, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(infos), word)
	sound(t, st, s.Ref())
}

// Another process that uses the session keeps nothing of what it knew, loses
// nothing that it appends meanwhile, and puts no old row at its end.
func TestEraseBesideAnother(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := scratch(t)
	st, other := open(t, dir, nil), open(t, dir, nil)
	defer closed(t, st)
	s := plant(t, st, cli)
	there, err := other.Get(ctx, s.Ref())
	require.NoError(t, err)
	add(t, there, transcript.UserText("From here. "+word))
	plan, err := st.PlanErase(ctx, session.Erasure{Match: has})
	require.NoError(t, err)
	late := add(t, there, transcript.UserText("After the plan: "+word))[0]

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
	report, err := st.Erase(ctx, plan)
	require.NoError(t, err)
	wg.Wait()
	require.Empty(t, filesWith(t, dir))
	require.Contains(t, fmt.Sprint(report.Places), late)
	all := strings.Join(records(t, s), "\n")
	for _, text := range said {
		require.Equal(t, 1, strings.Count(all, `"`+text+`"`), text)
	}
	closed(t, other)
	require.Empty(t, filesWith(t, dir), "the other process put an old row")
	sound(t, st, s.Ref())
}

// Reasoning that was signed behind an erased entry would be refused there, and
// may say again what was erased. That from before it stays.
func TestEraseReasoning(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, st)
	s := load(t, st, cli)
	thought := func(text string) *transcript.Response {
		return &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: text, Signature: text}, transcript.TextBlock{Text: "Yes."},
		}}}
	}
	add(t, s, transcript.UserText("one"), thought("first"))
	id := add(t, s, transcript.UserText("two"))[0]
	add(t, s, thought("second"), transcript.UserText("three"), thought("third"))
	plan, err := st.PlanErase(t.Context(), session.Erasure{Entries: []session.Selection{{Session: s.Ref(), Entries: []string{id}}}})
	require.NoError(t, err)
	_, err = st.Erase(t.Context(), plan)
	require.NoError(t, err)
	text := strings.Join(records(t, s), "\n")
	require.Contains(t, text, `"first"`)
	require.NotContains(t, text, `"second"`)
	require.NotContains(t, text, `"third"`)
	require.Contains(t, text, transcript.ErasedText)
	require.Contains(t, text, "three")
}

// An item that a compaction has carried is shown in front of later reasoning, also where
// its entry was erased before.
func TestEraseCarriedAgain(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, st)
	s := load(t, st, cli)
	id := add(t, s, transcript.UserText("one"))[0]
	add(t, s, transcript.AssistantText("Yes."))
	erasure := session.Erasure{Entries: []session.Selection{{Session: s.Ref(), Entries: []string{id}}}}
	erase := func() {
		plan, err := st.PlanErase(t.Context(), erasure)
		require.NoError(t, err)
		_, err = st.Erase(t.Context(), plan)
		require.NoError(t, err)
	}
	erase()
	add(t, s, transcript.Compaction{Summary: "They talked.", CoversTo: id, Said: []transcript.Carried{{Entry: id, Text: transcript.ErasedText}}})
	add(t, s, transcript.UserText("two"), &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "Hm.", Signature: "signed"}, transcript.TextBlock{Text: "No."}},
	}})
	erase()
	text := strings.Join(records(t, s), "\n")
	require.NotContains(t, text, `"said"`)
	require.NotContains(t, text, "signed")
}

// A summary that has read what is erased is made again, of the rest.
func TestEraseSummary(t *testing.T) {
	t.Parallel()
	opts := &session.Options{Compact: compact.Options{Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		var text strings.Builder
		text.WriteString("They said that the pet is a " + word + " and that the house is blue.")
		for n := range 30 {
			fmt.Fprintf(&text, " Message %d was about %x.", n, n*n*7919)
		}
		return text.String(), nil
	})}}
	st := session.OpenDriver(memdriver.New(nil), opts)
	defer closed(t, st)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("The house is blue."), transcript.AssistantText("Noted."))
	add(t, s, transcript.UserText("My pet is a "+word+"."), transcript.AssistantText("Noted, too."))
	for range 30 {
		add(t, s, transcript.UserText("More. "+strings.Repeat("and more ", 200)), transcript.AssistantText("Go on."))
	}
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Tokens: 2000}, Summarizer: opts.Compact.Summarizer})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	plan, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
	require.NoError(t, err)
	_, err = st.Erase(t.Context(), plan)
	require.NoError(t, err)
	h, err := s.History(t.Context())
	if errors.Is(err, session.ErrReplaced) {
		h, err = s.History(t.Context())
	}
	require.NoError(t, err)
	text := toJSON(t, h)
	require.NotContains(t, text, word)
	require.Contains(t, text, "The house is blue.")
}

func TestEraseRefuses(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, st)
	_, err := st.PlanErase(t.Context(), session.Erasure{})
	require.ErrorContains(t, err, "nothing was erased")
	_, err = st.PlanErase(t.Context(), session.Erasure{Sessions: []session.Ref{{Agent: "main", ID: "nobody"}}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = st.Erase(t.Context(), session.ErasePlan{})
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
	defer closed(t, st)
	s := plant(t, st, cli)
	plan, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
	require.NoError(t, err)
	fail = full
	_, err = st.Erase(t.Context(), plan)
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
	defer closed(t, st)
	s, err := st.Create(t.Context(), cli, &session.CreateOptions{Owner: "ada"})
	require.NoError(t, err)
	planned, err := st.PlanErase(t.Context(), session.Erasure{Owner: "ada"})
	require.NoError(t, err)
	var plan session.ErasePlan
	require.NoError(t, json.Unmarshal([]byte(toJSON(t, planned)), &plan))
	_, err = st.Erase(t.Context(), plan, noEraser{})
	require.ErrorContains(t, err, "plan again")
	_, err = st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	_, err = st.Erase(t.Context(), plan)
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
// them; a retry is found as repeated all the same.
func TestEraseHash(t *testing.T) {
	t.Parallel()
	st := open(t, scratch(t), nil)
	defer closed(t, st)
	s := load(t, st, cli)
	items := []transcript.Item{transcript.UserText("one"), transcript.UserText(word)}
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	hash := session.IdemHash(entries(t, s)[1:])
	require.Contains(t, strings.Join(records(t, s), ""), hash)
	plan, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
	require.NoError(t, err)
	_, err = st.Erase(t.Context(), plan)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(records(t, s), ""), hash)
	again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: done.IDs, Repeated: true}, again)
}

// Sessions of a newer program are not touched.
func TestEraseNewerFormat(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, st)
	s := load(t, st, cli)
	end := int64(0)
	for rec, err := range s.Records(t.Context()) {
		require.NoError(t, err)
		end = rec.End
	}
	e, err := transcript.ParseEntry([]byte(`{"type":"hologram","id":"x","critical":true,"text":"` + word + `"}`))
	require.NoError(t, err)
	_, err = s.AppendLines(t.Context(), end, e)
	require.NoError(t, err)
	_, err = st.PlanErase(t.Context(), session.Erasure{Match: has})
	require.ErrorIs(t, err, session.ErrNewerFormat)
}

func entries(t *testing.T, s *session.Session) (all []transcript.Entry) {
	t.Helper()
	for e, err := range s.Entries(t.Context()) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// A blob goes with the last line that names it.
func TestEraseBlob(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	st := open(t, dir, &session.Options{Blobs: blobs.New(dir)})
	defer closed(t, st)
	s := load(t, st, cli)
	picture := func(seed uint64) transcript.Message {
		return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(15_000, seed)}}
	}
	one := add(t, s, picture(1))[0]
	add(t, s, picture(2), transcript.AssistantText("Nice."))
	again := add(t, s, picture(1))[0]
	files := func() int {
		all, err := blobs.New(dir).List(t.Context(), s.Ref())
		require.NoError(t, err)
		return len(all)
	}
	erase := func(id string) string {
		plan, err := st.PlanErase(t.Context(), session.Erasure{Entries: []session.Selection{{Session: s.Ref(), Entries: []string{id}}}})
		require.NoError(t, err)
		_, err = st.Erase(t.Context(), plan)
		require.NoError(t, err)
		return toJSON(t, plan.Places)
	}
	require.Equal(t, 2, files())
	require.NotContains(t, erase(one), `"blob"`)
	require.Equal(t, 2, files())
	require.Contains(t, erase(again), `"blob"`)
	require.Equal(t, 1, files())
	require.Contains(t, history(t, s), screenshot(15_000, 2).Source.Data)
	plan, err := st.PlanErase(t.Context(), session.Erasure{Sessions: []session.Ref{s.Ref()}})
	require.NoError(t, err)
	require.Contains(t, toJSON(t, plan.Places), `"blob"`)
	_, err = st.Erase(t.Context(), plan)
	require.NoError(t, err)
	require.Zero(t, files())
}

// An erase whose blobs could not be removed removes them when it is called again, also
// if the session was archived meanwhile.
func TestEraseBlobAgain(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is full")
	kept := &watched{Blobs: blobs.NewMemory()}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Blobs: kept})
	defer closed(t, st)
	s := load(t, st, cli)
	id := add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(15_000, 1)}})[0]
	plan, err := st.PlanErase(t.Context(), chosen(s, id))
	require.NoError(t, err)
	kept.fail = func(op string) error {
		if op == "delete" {
			return failed
		}
		return nil
	}
	_, err = st.Erase(t.Context(), plan)
	require.ErrorIs(t, err, failed)
	kept.fail = nil
	require.NoError(t, st.Archive(t.Context(), s.Ref())) // nothing is appended to it any more
	_, err = st.Erase(t.Context(), plan)
	require.NoError(t, err)
	hashes, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Empty(t, hashes)
	require.True(t, s.Info().State == session.Archived)
}

// A session that was never made because its process was killed leaves no word behind an
// erase, although nothing in the store speaks of it.
func TestEraseOfAKilledCreate(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	st := open(t, dir, nil)
	defer closed(t, st)
	load(t, st, cli)
	temp := filepath.Join(dir, "agents/main/sessions/half.jsonl.tmp-0123456789abcdef")
	require.NoError(t, os.WriteFile(temp, []byte(word), 0o600))
	erased(t, st, session.Erasure{Owner: "ada"})
	require.Empty(t, filesWith(t, dir))
}
