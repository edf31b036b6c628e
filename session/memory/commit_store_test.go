package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// A restart finds commits and uses without reading older lines, and the next
// commit reads only new lines.
func TestCommitResumeReadsLittle(t *testing.T) {
	t.Parallel()
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, vikingly())
	s := storetest.Load(t, st, storetest.CLI)
	for i := range 20 {
		storetest.Talk(t, s, i*20, 20)
		require.NoError(t, memory.RecordUse(storetest.Background, s, memory.Use{URI: "every"}, memory.Use{URI: fmt.Sprint("only", i)}, memory.Use{Type: "skill", URI: "skill"}))
		done := commit(t, s, &memory.CommitOptions{KeepHistory: i%3 == 0})
		if i%2 == 0 {
			storetest.Add(t, s, transcript.Extracted{Commit: done.Entry, Counts: map[string]transcript.ExtractedCount{"cases": {Added: 1, Merged: 1, Failed: 1}}})
		}
	}
	require.NoError(t, memory.RecordUse(storetest.Background, s, memory.Use{URI: "every"}, memory.Use{URI: "last"}))
	require.NoError(t, storetest.ErrOf(s.Compact(storetest.Background, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	storetest.Talk(t, s, 400, 3)
	want := stats(t, s)
	require.Equal(t, memory.Stats{Turns: 403, Tokens: want.Tokens, Compressions: want.Compressions, Contexts: 42, Skills: 20, Memories: 20, Commits: 20}, want)
	chapters := chaptersOf(t, s)
	storetest.Close(t, st)

	d := &storetest.CountingDriver{Driver: memdriver.Reopen(mem)}
	st = session.OpenDriver(d, vikingly())
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.Equal(t, want, stats(t, s))
	require.Less(t, d.Records, 120)
	was := d.Records
	done := commit(t, s, nil)
	require.Equal(t, "chapter_021", done.Chapter)
	require.Equal(t, 6, done.Messages)
	require.Less(t, d.Records-was, 120)
	require.Equal(t, chapters, chaptersOf(t, s)[:20])
	require.Len(t, inChapter(t, s, "chapter_007"), 40)
	for i, a := range chapters {
		require.Equal(t, i%2 == 0, a.Extracted, i)
	}
}

// A chapter contains no text that Redact masks, even for the caller.
func TestCommitRedact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}, Compact: compact.Options{Summarizer: compact.SummarizerFunc(storetest.Says("**It**: the key is " + storetest.Secret + "\n" + storetest.WholeSummary))}}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	for _, keep := range []bool{true, false} {
		storetest.Talk(t, s, 0, 2)
		done := commit(t, s, &memory.CommitOptions{KeepHistory: keep})
		require.Equal(t, "the key is [masked]", done.Abstract)
		require.NotContains(t, storetest.JSON(t, done), storetest.Secret)
	}
	require.NotContains(t, storetest.JSON(t, chaptersOf(t, s)), storetest.Secret)
	storetest.Close(t, st)
	require.Empty(t, storetest.Grep(t, dir, storetest.Secret))
}

// An erase reaches chapters, which stay readable.
func TestCommitErase(t *testing.T) {
	t.Parallel()
	each(t, &session.Options{Compact: compact.Options{Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
		return "**Pets**: " + in.Messages[0].Text() + "\n" + storetest.WholeSummary, nil
	})}}, func(t *testing.T, st *session.Store) {
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		s, err := ada.Create(t.Context(), storetest.CLI, nil)
		require.NoError(t, err)
		storetest.Talk(t, s, 0, 2)
		first := commit(t, s, &memory.CommitOptions{KeepHistory: true})
		storetest.Add(t, s, transcript.UserText("My pet is a "+storetest.Word+"."), storetest.Answer("Nice."))
		require.NoError(t, memory.RecordUse(t.Context(), s, memory.Use{URI: "pets/" + storetest.Word}))
		done := commit(t, s, nil)
		require.Contains(t, done.Abstract, "question 0")
		storetest.Talk(t, s, 2, 1)
		storetest.Add(t, s, transcript.Extracted{Commit: done.Entry, Err: "no " + storetest.Word})
		commit(t, s, nil)
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
		require.NoError(t, err)
		require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
		s, err = st.Get(t.Context(), s.Ref())
		require.NoError(t, err)
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			require.False(t, storetest.HasWord(e), "%s", e.Line())
		}
		all := chaptersOf(t, s)
		require.Len(t, all, 3)
		for i, a := range all {
			require.NotContains(t, strings.Join(inChapter(t, s, a.Name), " "), storetest.Word)
			require.Equal(t, i > 0, a.Overview == "", "%d: %q", i, a.Overview)
		}
		require.Equal(t, first.Overview, all[0].Overview)
		require.False(t, all[1].Extracted)
		require.Equal(t, "no_messages", commit(t, s, nil).Reason)
	})
}

// An archived session still has its chapters.
func TestCommitArchived(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), vikingly())
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 2)
	require.NoError(t, memory.RecordUse(t.Context(), s, memory.Use{URI: "u"}))
	commit(t, s, nil)
	storetest.Talk(t, s, 2, 1)
	want, sum := chaptersOf(t, s), stats(t, s)
	require.NoError(t, storetest.ErrOf(st.Create(t.Context(), storetest.CLI, nil)))
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	s, err := st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Equal(t, want, chaptersOf(t, s))
	require.Equal(t, sum, stats(t, s))
	require.Len(t, inChapter(t, s, "chapter_001"), 4)
	require.Len(t, live(t, s), 2)
	_, err = memory.Commit(t.Context(), s, nil)
	require.ErrorIs(t, err, session.ErrArchived)
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
	require.Equal(t, 2, commit(t, s, nil).Messages)
}
