package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// A restart knows what was committed and used without reading older lines, and
// the next commit reads no more than what is new.
func TestCommitResumeReadsLittle(t *testing.T) {
	t.Parallel()
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, vikingly())
	s := load(t, st, cli)
	for i := range 20 {
		talk(t, s, i*20, 20)
		require.NoError(t, s.Use(bg, []string{"every", fmt.Sprint("only", i)}, &transcript.SkillUse{URI: "skill"}))
		done := commit(t, s, &session.CommitOptions{KeepHistory: i%3 == 0})
		if i%2 == 0 {
			add(t, s, transcript.Extracted{Commit: done.Entry, Counts: map[string]transcript.ExtractedCount{"cases": {Added: 1, Merged: 1, Failed: 1}}})
		}
	}
	require.NoError(t, s.Use(bg, []string{"every", "last"}, nil))
	require.NoError(t, second(s.Compact(bg, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(says(whole))})))
	talk(t, s, 400, 3)
	want := s.Stats()
	require.Equal(t, session.Stats{Turns: 403, Tokens: want.Tokens, Compressions: want.Compressions, Contexts: 42, Skills: 20, Memories: 20, Commits: 20}, want)
	archives := archivesOf(t, s)
	closed(t, st)

	d := &countingDriver{Driver: mem.Reopen()}
	st = session.OpenDriver(d, vikingly())
	defer closed(t, st)
	s = load(t, st, cli)
	require.Equal(t, want, s.Stats())
	require.Less(t, d.records, 120)
	was := d.records
	done := commit(t, s, nil)
	require.Equal(t, "archive_021", done.Archive)
	require.Equal(t, 6, done.Messages)
	require.Less(t, d.records-was, 120)
	require.Equal(t, archives, archivesOf(t, s)[:20])
	require.Len(t, archived(t, s, "archive_007"), 40)
	for i, a := range archives {
		require.Equal(t, i%2 == 0, a.Extracted, i)
	}
}

// An archive says nothing that Redact would not let be written, to the caller
// neither.
func TestCommitRedact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := &session.Options{Redact: redact.Secrets, Compact: compact.Options{Summarizer: compact.SummarizerFunc(says("**It**: the key is " + planted + "\n" + whole))}}
	st := open(t, dir, opts)
	s := load(t, st, cli)
	for _, keep := range []bool{true, false} {
		talk(t, s, 0, 2)
		done := commit(t, s, &session.CommitOptions{KeepHistory: keep})
		require.Equal(t, "the key is [masked]", done.Abstract)
		require.NotContains(t, mustJSON(t, done), planted)
	}
	require.NotContains(t, mustJSON(t, archivesOf(t, s)), planted)
	closed(t, st)
	require.Empty(t, grep(t, dir, planted))
}

// An erase reaches archives, which can still be read.
func TestCommitErase(t *testing.T) {
	t.Parallel()
	each(t, &session.Options{Compact: compact.Options{Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
		return "**Pets**: " + in.Messages[0].Text() + "\n" + whole, nil
	})}}, func(t *testing.T, st *session.Store) {
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		s, err := ada.Create(t.Context(), cli, nil)
		require.NoError(t, err)
		talk(t, s, 0, 2)
		first := commit(t, s, &session.CommitOptions{KeepHistory: true})
		add(t, s, transcript.UserText("My pet is a "+word+"."), answer("Nice."))
		require.NoError(t, s.Use(t.Context(), []string{"pets/" + word}, nil))
		done := commit(t, s, nil)
		require.Contains(t, done.Abstract, "question 0")
		talk(t, s, 2, 1)
		add(t, s, transcript.Extracted{Commit: done.Entry, Err: "no " + word})
		commit(t, s, nil)
		plan, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
		require.NoError(t, err)
		require.NoError(t, second(st.Erase(t.Context(), plan)))
		s, err = st.Get(t.Context(), s.Ref())
		require.NoError(t, err)
		for e, err := range s.Entries(t.Context()) {
			require.NoError(t, err)
			require.False(t, has(e), "%s", e.Line())
		}
		all := archivesOf(t, s)
		require.Len(t, all, 3)
		for i, a := range all {
			require.Equal(t, "ada", a.Owner)
			require.NotContains(t, strings.Join(archived(t, s, a.Name), " "), word)
			require.Equal(t, i > 0, a.Overview == "", "%d: %q", i, a.Overview)
		}
		require.Equal(t, first.Overview, all[0].Overview)
		require.False(t, all[1].Extracted)
		require.Equal(t, session.NothingNew, commit(t, s, nil).Reason)
	})
}

// An archived session still has its archives.
func TestCommitArchived(t *testing.T) {
	t.Parallel()
	st := open(t, t.TempDir(), vikingly())
	defer closed(t, st)
	s := load(t, st, cli)
	talk(t, s, 0, 2)
	require.NoError(t, s.Use(t.Context(), []string{"u"}, nil))
	commit(t, s, nil)
	talk(t, s, 2, 1)
	want, stats := archivesOf(t, s), s.Stats()
	require.NoError(t, second(st.Create(t.Context(), cli, nil)))
	require.NoError(t, st.Archive(t.Context(), s.Ref()))
	s, err := st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Equal(t, want, archivesOf(t, s))
	require.Equal(t, stats, s.Stats())
	require.Len(t, archived(t, s, "archive_001"), 4)
	require.Len(t, live(t, s), 2)
	_, err = s.Commit(t.Context(), nil)
	require.ErrorIs(t, err, session.ErrArchived)
	require.NoError(t, st.Restore(t.Context(), s.Ref()))
	require.Equal(t, 2, commit(t, s, nil).Messages)
}
