package turn_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The answer replaces its draft; the draft of a turn that died becomes an
// aborted answer.
func TestDraft(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	storetest.Add(t, s, transcript.UserText("write"))
	tn := begin(t, s)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	for range 3 {
		require.NoError(t, d.Write(ctx, strings.Repeat("x", 3<<10)))
	}
	messages := storetest.Info(t, s).Messages
	require.NotContains(t, storetest.History(t, s), "xxx")
	ids, err := d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("whole")})
	require.NoError(t, err)
	again, err := d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("whole")})
	require.NoError(t, err)
	require.Equal(t, ids, again)
	require.Equal(t, messages+1, storetest.Info(t, s).Messages)

	storetest.Add(t, s, transcript.UserText("more"))
	d = tn.Draft("anthropic", "m", transcript.Made{})
	require.NoError(t, d.Write(ctx, "half of "))
	require.NoError(t, d.Flush(ctx))
	require.NoError(t, d.Write(ctx, "it"))
	require.NoError(t, d.Flush(ctx))
	require.NoError(t, tn.End())

	tn = begin(t, s)
	h, err := s.History(ctx)
	require.NoError(t, err)
	require.Equal(t, "half of it", h.Messages[len(h.Messages)-1].Text())
	p, err := s.Pending(ctx)
	require.NoError(t, err)
	require.True(t, p.Cut)
	_, err = d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("half of it and the rest")})
	require.ErrorIs(t, err, session.ErrConflict)
	require.NoError(t, tn.End())
	storetest.Close(t, st)

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	tn = begin(t, storetest.Load(t, st, storetest.CLI))
	require.NoError(t, tn.End())
	h, err = storetest.Load(t, st, storetest.CLI).History(ctx)
	require.NoError(t, err)
	require.Len(t, h.Messages, 4)
}

// A draft of an answer to rewound entries prevents no turn, becomes no answer, and
// cannot be committed any more.
func TestDraftOfARewoundTurn(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("one"), transcript.AssistantText("two"))
	before := storetest.History(t, s)
	asked := storetest.Add(t, s, transcript.UserText("three"))[0]
	tn := begin(t, s)
	d := tn.Draft("anthropic", "m", transcript.Made{After: asked})
	require.NoError(t, d.Write(t.Context(), "half an answer"))
	require.NoError(t, d.Flush(t.Context()))
	require.NoError(t, tn.End())
	require.NoError(t, turn.Undo(t.Context(), s, 1))

	require.NoError(t, begin(t, s).End())
	require.Equal(t, before, storetest.History(t, s))
	require.Empty(t, storetest.WholeFold(t, s, rebuild.SummaryUser).Standing().Draft)
	require.NoError(t, s.Rewind(t.Context(), asked))
	_, err := d.Finish(t.Context(), &transcript.Response{Message: transcript.AssistantText("four"), Made: transcript.Made{After: asked}})
	require.ErrorIs(t, err, session.ErrConflict)
}

// If a draft continues after a later turn has closed it, the next turn ends it. A
// draft without a key is ignored.
func TestLateDraft(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("hi"), transcript.Draft{Text: "no key"})
	tn := begin(t, s)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	for _, text := range []string{"early", "late"} {
		require.NoError(t, d.Write(t.Context(), text))
		require.NoError(t, d.Flush(t.Context()))
		require.NoError(t, tn.End())
		tn = begin(t, s)
	}
	require.NoError(t, tn.End())
	require.Empty(t, storetest.WholeFold(t, s, rebuild.SummaryUser).Standing().Draft)
	require.Equal(t, `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"early"}]}`, storetest.History(t, s))
}

// A discarded draft is in no history and cannot continue.
func TestDiscardedDraft(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("one"))
	tn := begin(t, s)
	for _, text := range []string{"half", ""} { // one without a text leaves no line
		lines := len(storetest.Lines(t, s))
		d := tn.Draft("anthropic", "m", transcript.Made{})
		require.NoError(t, d.Write(t.Context(), text))
		require.NoError(t, d.Flush(t.Context()))
		require.NoError(t, d.Discard(t.Context()))
		require.NoError(t, d.Discard(t.Context()))
		require.Len(t, storetest.Lines(t, s), lines+2*min(1, len(text)))
		require.NoError(t, d.Write(t.Context(), "more"))
		require.ErrorContains(t, d.Flush(t.Context()), "is over")
		if text != "" {
			_, err := d.Finish(t.Context(), &transcript.Response{Message: transcript.AssistantText("whole")})
			require.ErrorIs(t, err, session.ErrConflict)
		}
	}
	d := tn.Draft("anthropic", "m", transcript.Made{})
	require.NoError(t, d.Write(t.Context(), "closed"))
	require.NoError(t, d.Flush(t.Context()))
	require.NoError(t, tn.End())
	require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
	require.NoError(t, begin(t, s).End())
	require.ErrorIs(t, d.Discard(t.Context()), session.ErrConflict)
	require.Empty(t, storetest.WholeFold(t, s, rebuild.SummaryUser).Standing().Draft)
	require.NotContains(t, storetest.History(t, s), "half")
}

// A draft replaces the one before with its first text or its end.
func TestReplacedDraft(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	one := transcript.Made{After: storetest.Add(t, s, transcript.UserText("one"))[0]}
	tn := begin(t, s)
	open := func() string { return storetest.WholeFold(t, s, rebuild.SummaryUser).Standing().Draft.Text }
	var last *turn.Draft
	for _, text := range []string{"first", "", "second"} {
		last = tn.Draft("anthropic", "m", one)
		require.NoError(t, last.Write(t.Context(), text))
		require.NoError(t, last.Flush(t.Context()))
	}
	require.Equal(t, "second", open())
	require.NoError(t, storetest.ErrOf(last.Finish(t.Context(), &transcript.Response{Message: transcript.AssistantText("an answer"), Made: one})))
	require.Empty(t, open())

	// A draft without a text.
	two := transcript.Made{After: storetest.Add(t, s, transcript.UserText("two"))[0]}
	d := tn.Draft("anthropic", "m", two)
	require.NoError(t, d.Write(t.Context(), "third"))
	require.NoError(t, d.Flush(t.Context()))
	empty := tn.Draft("anthropic", "m", transcript.Made{After: two.After, PromptHash: "another request"})
	require.ErrorContains(t, d.Flush(t.Context()), "is over")
	require.Equal(t, "third", open())
	require.NoError(t, empty.Discard(t.Context()))
	require.Empty(t, open())
	late := tn.Draft("anthropic", "m", two)
	last = tn.Draft("anthropic", "m", two)
	require.NoError(t, last.Write(t.Context(), "fourth"))
	require.NoError(t, last.Flush(t.Context()))
	require.NoError(t, late.Discard(t.Context()))
	require.Equal(t, "fourth", open())
	require.NoError(t, tn.End())
	require.NoError(t, begin(t, s).End())
	require.Empty(t, open())
	require.NotContains(t, storetest.History(t, s), "first")
	require.NotContains(t, storetest.History(t, s), "third")
	require.Contains(t, storetest.History(t, s), "fourth", "as an aborted answer")
}
