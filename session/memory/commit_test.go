package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// viking is an overview in OpenViking's form.
const viking = "# Session Summary\n\n**One-sentence overview**: Tea: what to buy | bought | done\n\n## Analysis\nThey talked about tea."

func vikingly() *session.Options {
	return &session.Options{Compact: compact.Options{Summarizer: compact.SummarizerFunc(storetest.Says(viking))}}
}

// each calls check with a store of either driver.
func each(t *testing.T, opts *session.Options, check func(t *testing.T, st *session.Store)) {
	t.Helper()
	t.Run("file", func(t *testing.T) {
		st := storetest.Open(t, t.TempDir(), opts)
		defer storetest.Close(t, st)
		check(t, st)
	})
	t.Run("memory", func(t *testing.T) {
		st := session.OpenDriver(memdriver.New(nil), opts)
		defer storetest.Close(t, st)
		check(t, st)
	})
}

func chaptersOf(t testing.TB, s *session.Session) []memory.Chapter {
	t.Helper()
	all, err := memory.Chapters(context.Background(), s)
	require.NoError(t, err)
	return all
}

func textsOf(msgs []transcript.Message) (texts []string) {
	for _, m := range msgs {
		texts = append(texts, m.Text())
	}
	return texts
}

func live(t testing.TB, s *session.Session) []string {
	t.Helper()
	h, err := memory.Uncommitted(context.Background(), s)
	require.NoError(t, err)
	return textsOf(h.Messages)
}

func inChapter(t testing.TB, s *session.Session, name string) []string {
	t.Helper()
	h, err := memory.ReadChapter(context.Background(), s, name)
	require.NoError(t, err)
	return textsOf(h.Messages)
}

func stats(t testing.TB, s *session.Session) memory.Stats {
	t.Helper()
	sum, err := memory.ReadStats(context.Background(), s)
	require.NoError(t, err)
	return sum
}

func commit(t testing.TB, s *session.Session, opts *memory.CommitOptions) memory.Committed {
	t.Helper()
	done, err := memory.Commit(context.Background(), s, opts)
	require.NoError(t, err)
	return done
}

// filed returns the words of a session's chapters.
func filed(t testing.TB, s *session.Session) (all [][]string) {
	t.Helper()
	for i, a := range chaptersOf(t, s) {
		require.Equal(t, fmt.Sprintf("chapter_%03d", i+1), a.Name)
		h, err := memory.ReadChapter(storetest.Background, s, a.Name)
		require.NoError(t, err)
		all = append(all, wordsOf(h))
	}
	return all
}

// A commit puts the messages into a chapter, the history continues with the overview, and
// a second commit has nothing to do.
func TestCommit(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s, err := st.Create(ctx, storetest.CLI, &session.CreateOptions{Owner: "ada"})
		require.NoError(t, err)
		require.Equal(t, memory.Committed{Reason: "no_messages"}, commit(t, s, nil))
		storetest.Add(t, s, transcript.UserText("tea?"))
		require.Equal(t, memory.Committed{Reason: "turn_open", Open: 1}, commit(t, s, nil))
		storetest.Add(t, s, storetest.Answer("", "c1"))
		require.Equal(t, "turn_open", commit(t, s, nil).Reason)
		storetest.Add(t, s, transcript.ToolResult("c1", "green"))
		require.Equal(t, "turn_open", commit(t, s, nil).Reason)
		storetest.Add(t, s, storetest.Answer("green tea"))
		waiting := storetest.Add(t, s, transcript.UserText("and coffee?"))[0]

		done := commit(t, s, nil)
		require.True(t, done.Chapter != "")
		require.Equal(t, "chapter_001", done.Chapter)
		require.Equal(t, "Tea: what to buy | bought | done", done.Abstract)
		require.Equal(t, viking, done.Overview)
		require.Equal(t, 3, done.Messages)
		require.Equal(t, []string{"tea?", "", "", "green tea"}, inChapter(t, s, "chapter_001"))
		require.Equal(t, []string{"and coffee?"}, live(t, s))
		h, err := s.History(ctx)
		require.NoError(t, err)
		require.Len(t, h.Messages, 1)
		require.Contains(t, h.Messages[0].Text(), "They talked about tea.")
		require.Contains(t, h.Messages[0].Text(), "and coffee?")
		require.Equal(t, "turn_open", commit(t, s, nil).Reason)

		storetest.Add(t, s, storetest.Answer("no coffee"))
		again := commit(t, s, &memory.CommitOptions{KeepHistory: true})
		require.Equal(t, "chapter_002", again.Chapter)
		require.Equal(t, waiting, again.First)
		require.Equal(t, []string{"and coffee?", "no coffee"}, inChapter(t, s, "chapter_002"))
		require.Empty(t, live(t, s))
		require.Contains(t, storetest.History(t, s), "no coffee")
		require.Equal(t, memory.Committed{Reason: "no_messages"}, commit(t, s, nil))

		storetest.Add(t, s, transcript.Extracted{Commit: done.Entry, Counts: map[string]transcript.ExtractedCount{"events": {Added: 2, Skipped: 1}, "profile": {Merged: 1}}},
			transcript.Extracted{Commit: again.Entry, Err: "no model"})
		all := chaptersOf(t, s)
		require.Len(t, all, 2)
		require.Equal(t, "chapter_001", all[0].Name)
		require.True(t, all[0].Extracted)
		require.False(t, all[1].Extracted)
		require.Equal(t, 2, all[1].Messages)
		require.Equal(t, memory.Stats{Turns: 2, Tokens: storetest.Info(t, s).Tokens, Compressions: 1, Memories: 3, Commits: 2}, stats(t, s))
		_, err = memory.ReadChapter(ctx, s, "chapter_003")
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

// A context counts once for each commit that it was used for.
func TestUse(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := storetest.Load(t, st, storetest.CLI)
		require.Error(t, memory.RecordUse(ctx, s))
		require.Error(t, memory.RecordUse(ctx, s, memory.Use{Type: "tool", URI: "x"}))
		require.Error(t, memory.RecordUse(ctx, s, memory.Use{URI: ""}))
		require.Error(t, memory.RecordUse(ctx, s, memory.Use{Type: "skill", Input: "x"}))
		use := func(skill string, uris ...string) {
			t.Helper()
			var uses []memory.Use
			for _, uri := range uris {
				uses = append(uses, memory.Use{URI: uri})
			}
			if skill != "" {
				uses = append(uses, memory.Use{Type: "skill", URI: skill, Input: "in", Output: "out", Success: true})
			}
			require.NoError(t, memory.RecordUse(ctx, s, uses...))
		}
		counts := func(contexts, skills int) {
			t.Helper()
			got := stats(t, s)
			require.Equal(t, [2]int{contexts, skills}, [2]int{got.Contexts, got.Skills})
		}
		use("", "a", "b", "a")
		use("s", "a")
		use("s")
		counts(2, 1)
		storetest.Talk(t, s, 0, 2)
		commit(t, s, nil)
		counts(2, 1)
		use("", "a")
		counts(3, 1)
		storetest.Talk(t, s, 2, 8)
		require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
		use("t", "a")
		counts(3, 2)
		other := session.OpenDriver(memdriver.New(nil), nil)
		defer storetest.Close(t, other)
		var uris []string
		uses, err := memory.Uses(ctx, s)
		require.NoError(t, err)
		for _, r := range uses {
			require.NotEmpty(t, r.Entry)
			uris = append(uris, r.Type+" "+r.URI+r.Input)
		}
		require.Equal(t, []string{"context a", "context b", "context a", "context a", "skill sin", "skill sin", "context a", "context a", "skill tin"}, uris)
	})
}

// A session without commits has no such lines, and no goroutine waits for them.
func TestCommitCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		s := storetest.Load(t, session.OpenDriver(memdriver.New(nil), nil), storetest.CLI)
		storetest.Talk(t, s, 0, 3)
		require.NoError(t, storetest.ErrOf(s.AfterTurn(t.Context())))
		var types []string
		for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
			require.NoError(t, err)
			types = append(types, rec.Entry.Type())
		}
		require.Contains(t, types, transcript.TypeUser)
		for _, no := range []string{"commit", "used", "extracted", "tool_status"} {
			require.NotContains(t, types, no)
		}
		require.Equal(t, memory.Stats{Turns: 3, Tokens: stats(t, s).Tokens}, stats(t, s))
	})
}

// Contexts and statuses of calls are closed sets, and a status never reverts.
func TestClosedSets(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	for _, item := range []transcript.Item{
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ContextBlock{URI: "a", Kind: "nonsense"}}},
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ContextBlock{URI: "a"}}},
		transcript.ToolStatus{CallID: "c1", Status: "done"},
		transcript.ToolStatus{CallID: "c1"},
	} {
		require.Error(t, storetest.ErrOf(s.Append(ctx, item)))
	}
	status := func(call, status string) error {
		return storetest.ErrOf(s.Append(ctx, transcript.ToolStatus{CallID: call, Status: status}))
	}
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("", "c1", "c2"))
	require.NoError(t, status("c1", "pending"))
	require.NoError(t, status("c1", "running"))
	require.NoError(t, status("c1", "running"))
	require.ErrorIs(t, status("c1", "pending"), session.ErrConflict)
	require.NoError(t, status("c1", "completed"))
	for _, back := range []string{"error", "running", "pending"} {
		require.ErrorIs(t, status("c1", back), session.ErrConflict)
	}
	require.ErrorIs(t, storetest.ErrOf(s.Append(ctx, transcript.ToolStatus{CallID: "c2", Status: "error"}, transcript.ToolStatus{CallID: "c2", Status: "running"})), session.ErrConflict)
	require.NoError(t, status("c2", "error"))
	storetest.Add(t, s, transcript.ToolResult("c1", "1"), transcript.ToolResult("c2", "2"), storetest.Answer("once more", "c1"))
	require.NoError(t, status("c1", "pending")) // another call with that ID
}

// If a summarizer fails or hangs, the overview is an extract, and its abstract is
// useful.
func TestCommitStandIn(t *testing.T) {
	t.Parallel()
	fails := compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) { return "", errors.New("no model") })
	hangs := compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	for name, summarizer := range map[string]compact.Summarizer{"none": nil, "fails": fails, "hangs": hangs, "empty": compact.SummarizerFunc(storetest.Says(""))} {
		t.Run(name, func(t *testing.T) {
			st := storetest.Open(t, t.TempDir(), nil)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Talk(t, s, 0, 3)
			for _, keep := range []bool{true, false} {
				done := commit(t, s, &memory.CommitOptions{Summarizer: summarizer, Timeout: time.Millisecond, KeepHistory: keep})
				require.Contains(t, done.Overview, "made without a model")
				require.Regexp(t, "^question [03], with some words", done.Abstract)
				storetest.Talk(t, s, 3, 2)
			}
		})
	}
}

// Keep is the part of a chapter that the history still shows.
func TestCommitKeep(t *testing.T) {
	t.Parallel()
	opts := vikingly()
	opts.Compact.Recall = true
	st := storetest.Open(t, t.TempDir(), opts)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 6)
	done := commit(t, s, &memory.CommitOptions{Keep: compact.Keep{Turns: 2}})
	require.Equal(t, 12, done.Messages)
	require.Equal(t, viking, done.Overview)
	h := storetest.History(t, s)
	require.Contains(t, h, recalltool.Search)
	require.Contains(t, h, "They talked about tea")
	require.NotContains(t, h, "answer 3")
	require.Contains(t, h, "question 4")
	require.Empty(t, live(t, s))
	require.Len(t, inChapter(t, s, done.Chapter), 12)
	storetest.Talk(t, s, 6, 1)
	done = commit(t, s, &memory.CommitOptions{Keep: compact.Keep{Turns: 100}})
	require.Equal(t, []string{"question 6, with some words that a summary leaves out", "answer 6, with some words that a summary leaves out"}, inChapter(t, s, done.Chapter))
	require.Contains(t, storetest.History(t, s), "question 4")
}

// A rewind over a commit commits nothing twice, and after undoing it the next commit has the
// skipped messages.
func TestCommitRewind(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		st := storetest.Open(t, t.TempDir(), vikingly())
		s := storetest.Load(t, st, storetest.CLI)
		ctx := t.Context()
		opts := &memory.CommitOptions{KeepHistory: keep}
		turn := func(name string) string {
			return storetest.Add(t, s, transcript.UserText(name), storetest.Answer(name))[1]
		}
		turn("a")
		b := turn("b")
		d := []string{turn("c"), turn("d")}[1]
		require.NoError(t, s.Rewind(ctx, b))
		e := turn("e")
		require.Equal(t, []string{"a", "a", "b", "b", "e", "e"}, inChapter(t, s, commit(t, s, opts).Chapter))
		require.NoError(t, s.Rewind(ctx, b))
		require.Equal(t, "no_messages", commit(t, s, opts).Reason)
		require.NoError(t, s.Rewind(ctx, d))
		require.Equal(t, []string{"c", "c", "d", "d"}, live(t, s))
		turn("f")
		require.Equal(t, []string{"c", "c", "d", "d", "f", "f"}, inChapter(t, s, commit(t, s, opts).Chapter))
		require.NoError(t, s.Rewind(ctx, e))
		require.Empty(t, live(t, s))
		turn("g")
		done := commit(t, s, opts)
		require.Equal(t, "chapter_003", done.Chapter)
		require.Equal(t, []string{"g", "g"}, inChapter(t, s, done.Chapter))
		storetest.Close(t, st)
	}
}

// A fork has no chapters, and does not commit its copies.
func TestCommitFork(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Talk(t, s, 0, 2)
		require.NoError(t, memory.RecordUse(ctx, s, memory.Use{URI: "a"}))
		commit(t, s, nil)
		require.NoError(t, memory.RecordUse(ctx, s, memory.Use{URI: "b"}))
		last := storetest.Add(t, s, transcript.UserText("last"), storetest.Answer("one"))[1]
		require.NoError(t, memory.RecordUse(ctx, s, memory.Use{URI: "c"}))
		f, err := s.Fork(ctx, last, nil)
		require.NoError(t, err)
		require.Empty(t, chaptersOf(t, f))
		require.Empty(t, live(t, f))
		require.Zero(t, stats(t, f).Contexts)
		require.Zero(t, stats(t, f).Commits)
		uses, err := memory.Uses(ctx, f)
		require.NoError(t, err)
		require.Empty(t, uses)
		require.Equal(t, "no_messages", commit(t, f, nil).Reason)
		storetest.Add(t, f, transcript.UserText("own"), storetest.Answer("own"))
		done := commit(t, f, nil)
		require.Equal(t, "chapter_001", done.Chapter)
		require.Equal(t, []string{"own", "own"}, inChapter(t, f, done.Chapter))
		require.Len(t, chaptersOf(t, f), 1)
		require.Equal(t, []string{"last", "one"}, live(t, s))
		g, err := f.Fork(ctx, f.Ref().ID, nil)
		require.NoError(t, err)
		require.Empty(t, chaptersOf(t, g))
	})
}

// A fork of a fork also lacks chapters, although a compaction between them
// ended the first base's.
func TestCommitForkOfFork(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), vikingly())
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 2)
	kept := storetest.Add(t, s, transcript.UserText("kept"), storetest.Answer("yes"))[0]
	commit(t, s, &memory.CommitOptions{Keep: compact.Keep{Turns: 1}})
	for range 2 {
		storetest.Talk(t, s, 2, 1)
		id := storetest.Add(t, s, transcript.Compaction{Summary: "S", FirstKept: kept})[0]
		var err error
		s, err = s.Fork(t.Context(), id, nil)
		require.NoError(t, err)
		require.Contains(t, storetest.History(t, s), "kept")
		require.Empty(t, chaptersOf(t, s))
		require.Empty(t, live(t, s))
		require.Zero(t, stats(t, s).Commits)
	}
}

// AfterTurn commits when the trigger is reached.
func TestCommitTrigger(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for name, trigger := range map[string]memory.Trigger{
		"messages": {Messages: 6}, "tokens": {Tokens: 85}, "idle": {Idle: time.Hour}, "never": {},
	} {
		opts := vikingly()
		opts.AfterTurn = []func(context.Context, *session.Session) error{memory.Commits(trigger, &memory.CommitOptions{Now: func() time.Time { return now }})}
		opts.Now = func() time.Time { return now }
		st := storetest.Open(t, t.TempDir(), opts)
		s := storetest.Load(t, st, storetest.CLI)
		for i := range 7 {
			storetest.Talk(t, s, i, 1)
			if i == 2 {
				now = now.Add(2 * time.Hour)
			}
			require.NoError(t, storetest.ErrOf(s.AfterTurn(t.Context())))
			if i == 1 {
				require.Empty(t, chaptersOf(t, s), name)
			}
		}
		switch n := len(chaptersOf(t, s)); name {
		case "messages", "tokens":
			require.Equal(t, 2, n, name)
		case "idle":
			require.Equal(t, 1, n, name)
		default:
			require.Zero(t, n, name)
		}
		storetest.Close(t, st)
	}
}

// Chapters and uncommitted messages lack hidden ones, even from a batch that is shown in
// part; a rewound hide no longer counts.
func TestChapterWithoutHidden(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
		require.NoError(t, err)
		ids, err := s.Append(t.Context(), transcript.UserText("zeppelin"), transcript.AssistantText("a1"))
		require.NoError(t, err)
		_, err = turn.Hide(t.Context(), s, ids[1])
		require.NoError(t, err)
		require.NoError(t, s.Rewind(t.Context(), ids[1]))
		storetest.Add(t, s, transcript.UserText("q2"), transcript.AssistantText("a2"))
		require.Equal(t, []string{"zeppelin", "a1", "q2", "a2"}, live(t, s))
		_, err = turn.Hide(t.Context(), s, ids[0])
		require.NoError(t, err)
		want := []string{neutral.Opening, "a1", "q2", "a2"}
		require.Equal(t, want, live(t, s))
		commit(t, s, nil)
		require.Equal(t, want, inChapter(t, s, "chapter_001"))
		_, err = turn.Show(t.Context(), s, ids[0])
		require.NoError(t, err)
		require.Contains(t, inChapter(t, s, "chapter_001"), "zeppelin")
	})
}
