package exchange_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// A copy whose store has filters that the source lacks is continued like any other.
func TestCopyFiltered(t *testing.T) {
	kept := blobs.Memory()
	filters := []session.Filter{session.Redact(redact.Secrets), blobs.Filter(kept, nil)}
	from, to := inMemory(), session.OpenDriver(memdriver.New(nil), &session.Options{Filters: filters})
	keptBy.Store(to, kept)
	s := load(t, from)
	answer := &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{
		Role: transcript.RoleAssistant,
		Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: "A key.", Signature: "sig"}, transcript.TextBlock{Text: "One."}, transcript.TextBlock{Text: planted},
		},
	}}
	for range 3 {
		_, err := s.Append(t.Context(), picture(1), answer)
		require.NoError(t, err)
		_, err = s.Append(t.Context(), picture(2), transcript.UserText("plain"))
		require.NoError(t, err)
		require.Positive(t, copied(t, from, to).Lines)
		require.Zero(t, copied(t, from, to).Lines)
	}
	require.NotContains(t, textOf(t, to), planted)
	there, err := to.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	h, err := there.History(t.Context())
	require.NoError(t, err)
	want, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, len(want.Messages))
	require.Equal(t, want.Messages[0].Content, h.Messages[0].Content)

	say(t, there, "said to the copy")
	say(t, s, "said here")
	_, err = copyAll(t.Context(), from, to, nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
}

// An answer that an import has put into several appends is masked as one, and its copy
// is continued.
func TestCopyFilteredAnswer(t *testing.T) {
	from := inMemory()
	mask := session.Redact(func(_ context.Context, text string) string { return strings.ReplaceAll(text, "secret", "…") })
	to := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{mask}})
	s := load(t, from)
	answer := func(id string, b transcript.Block) transcript.Entry {
		f := transcript.MessageLine{Kind: "assistant", Role: transcript.RoleAssistant, Content: []transcript.Block{b}}
		if id != "a1" {
			f.Of = "a1"
		}
		return transcript.Entry{ID: id, Time: time.Unix(1_700_000_000, 0).UTC(), Body: f}
	}
	said := transcript.Entry{ID: "u1", Time: time.Unix(1_700_000_000, 0).UTC(), Body: transcript.MessageLine{
		Kind: "user", Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "Go on."}},
	}}
	lines := []transcript.Entry{
		said, answer("a1", transcript.ThinkingBlock{Thinking: "It is simple.", Signature: "sig"}),
		answer("a2", transcript.TextBlock{Text: "Here."}), answer("a3", transcript.TextBlock{Text: "A secret."}),
	}
	for end := range lines {
		at := int64(0)
		require.NoError(t, s.View(t.Context(), func(v *session.View) error {
			at = v.End()
			return nil
		}))
		_, err := s.AppendLines(t.Context(), at, lines[end])
		require.NoError(t, err)
	}
	require.Positive(t, copied(t, from, to).Lines)
	require.NotContains(t, textOf(t, to), "secret")
	require.NotContains(t, textOf(t, to), "It is simple.")
	require.Zero(t, copied(t, from, to).Lines)
}

// A session goes to a store that writes checksums and back to one that writes none.
func TestCopyBackWithoutChecksums(t *testing.T) {
	bare := session.OpenDriver(memdriver.New(nil), &session.Options{NoChecksum: true})
	sealed := inMemory()
	say(t, load(t, bare), "one")
	copied(t, bare, sealed)
	say(t, load(t, sealed), "two")
	require.Equal(t, 1, copied(t, sealed, bare).Lines)
	require.Zero(t, copied(t, bare, sealed).Lines)
}

// A dry run stores no media, nor does a copy that diverges.
func TestCopyKeepsNothing(t *testing.T) {
	kept := blobs.Memory()
	from, to := inMemory(), session.OpenDriver(memdriver.New(nil), with(kept))
	keptBy.Store(to, kept)
	s := load(t, from)
	say(t, s, "one")
	copied(t, from, to)
	there, err := to.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	_, err = s.Append(t.Context(), picture(1))
	require.NoError(t, err)
	_, err = copyAll(t.Context(), from, to, &exchange.CopyOptions{DryRun: true})
	require.NoError(t, err)
	say(t, there, "said to the copy")
	_, err = copyAll(t.Context(), from, to, nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
	all, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Empty(t, all)
}
