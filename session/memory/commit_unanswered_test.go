package memory_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// Unanswered closes texts of the user alone, but neither a running turn nor a call
// without a result.
func TestCommitUnanswered(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s := storetest.Load(t, st, storetest.CLI)
		all := &memory.CommitOptions{Unanswered: true}
		storetest.Add(t, s, transcript.UserText("tea?"))
		storetest.Add(t, s, transcript.UserText("or coffee?"))
		require.Equal(t, memory.Committed{Reason: "turn_open", Open: 2}, commit(t, s, nil))

		running, err := turn.Begin(ctx, s)
		require.NoError(t, err)
		require.Equal(t, memory.Committed{Reason: "turn_open", Open: 2}, commit(t, s, all))
		require.NoError(t, running.End())

		done := commit(t, s, all)
		require.Equal(t, "chapter_001", done.Chapter)
		require.Equal(t, 2, done.Messages)
		require.Zero(t, done.Open)
		require.Equal(t, []string{"tea?\n\nor coffee?"}, inChapter(t, s, "chapter_001"))
		require.Empty(t, live(t, s))
		require.Equal(t, memory.Committed{Reason: "no_messages"}, commit(t, s, all))
		pending, err := s.Pending(ctx)
		require.NoError(t, err)
		require.Equal(t, rebuild.Pending{}, pending)

		storetest.Add(t, s, transcript.UserText("milk?"), storetest.Answer("no milk"))
		storetest.Add(t, s, transcript.UserText("which?"), storetest.Answer("", "c1"))
		done = commit(t, s, all)
		require.Equal(t, []int{2, 2}, []int{done.Messages, done.Open})
		storetest.Add(t, s, transcript.ToolResult("c1", "green"))
		require.Equal(t, "chapter_003", commit(t, s, all).Chapter)
		require.Empty(t, live(t, s))

		// The turn lock is free again, and the next answer has its question.
		storetest.Add(t, s, transcript.UserText("sugar?"))
		again, err := turn.TryBegin(ctx, s)
		require.NoError(t, err)
		require.NoError(t, again.End())
		require.Contains(t, storetest.History(t, s), "sugar?")
	})
}

// A turn may begin while the overview is written. If it ended, the chapter has its answer;
// if it runs, its messages stay.
func TestCommitTurnBegins(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		for name, want := range map[string]memory.Committed{"ends": {Chapter: "chapter_001", Messages: 2}, "runs": {Reason: "turn_open", Open: 1}} {
			s := storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: name})
			storetest.Add(t, s, transcript.UserText("tea?"))
			var running *turn.Turn
			meanwhile := compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
				if running != nil {
					return viking, nil
				}
				var err error
				if running, err = turn.TryBegin(ctx, s); err != nil {
					return "", err
				}
				if name == "ends" {
					storetest.Add(t, s, storetest.Answer("green"))
					require.NoError(t, running.End())
				}
				return viking, nil
			})
			done := commit(t, s, &memory.CommitOptions{Unanswered: true, Summarizer: meanwhile})
			require.NotNil(t, running)
			require.NoError(t, running.End())
			require.Equal(t, want, memory.Committed{Reason: done.Reason, Open: done.Open, Chapter: done.Chapter, Messages: done.Messages}, name)
			if name == "ends" {
				require.Equal(t, []string{"tea?", "green"}, inChapter(t, s, "chapter_001"))
			}
		}
	})
}

// Leave keeps the newest messages live, in whole turns, and the history shows them.
func TestCommitLeave(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		some := &memory.CommitOptions{Leave: 3}
		require.Equal(t, memory.Committed{Reason: "no_messages"}, commit(t, s, some))
		storetest.Talk(t, s, 1, 2)
		require.Equal(t, memory.Committed{Reason: "all_left", Open: 4}, commit(t, s, some))
		all := live(t, s)
		for n := 3; n < 7; n++ { // each commit leaves the last two turns
			storetest.Talk(t, s, n, 1)
			all = append(all, live(t, s)[4:]...)
			done := commit(t, s, some)
			require.Equal(t, []int{2, 4}, []int{done.Messages, done.Open})
			require.Equal(t, all[2*(n-3):2*(n-2)], inChapter(t, s, done.Chapter))
			require.Equal(t, all[2*(n-2):], live(t, s))
			require.Contains(t, storetest.History(t, s), all[2*(n-2)])
		}
		storetest.Add(t, s, transcript.UserText("open?"))
		require.Equal(t, 1, commit(t, s, nil).Open)
		require.Equal(t, []string{"open?"}, live(t, s))
	})
}
