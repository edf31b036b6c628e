package turn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// For all pieces of a draft, no part of a secret is in a line of it, and
// flushed text is in the answer.
func TestRedactDraft(t *testing.T) {
	const key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEaB3dE5gH7jK9mN1pQ3sT5\nvW7yZ9bC1dE3fG5aB3dE5gH7j\n-----END RSA PRIVATE KEY-----"
	text := "First line.\nThe token: " + storetest.Secret + " and more.\npassword:\nHunter27hunter\nHere:\n" + key + "\nDone.\nThe rest"
	for _, size := range []int{1, 3, 7, 40, 1000} {
		st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}})
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("go"))
		tn := begin(t, s)
		d := tn.Draft("anthropic", "m", transcript.Made{})
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			require.NoError(t, d.Write(t.Context(), rest[:n]))
			require.NoError(t, d.Flush(t.Context()))
			rest = rest[n:]
		}
		require.NoError(t, tn.End())
		require.NoError(t, begin(t, s).End()) // closes the draft, as after a crash
		want := "First line.\nThe token: [masked] and more.\npassword:\n[masked]\nHere:\n[masked]\nDone.\n"
		got := storetest.History(t, s)
		require.Contains(t, got, storetest.JSON(t, want), "size %d", size)
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			for _, word := range []string{storetest.Secret[:12], "MIIE", "vW7y", "Hunter27"} {
				require.NotContains(t, string(e.Line()), word, "size %d", size)
			}
		}
		storetest.Close(t, st)
	}
}

// A draft whose text a filter cannot read is written later.
func TestDraftFilterFails(t *testing.T) {
	var fails error
	filter := session.Filter{Write: func(_ context.Context, _ session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		return slices.Clone(entries), fails
	}}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{filter}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"))
	tn := begin(t, s)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	require.NoError(t, d.Write(t.Context(), "a line\n"))
	fails = errors.New("no connection")
	require.ErrorIs(t, d.Flush(t.Context()), fails)
	fails = nil
	require.NoError(t, d.Flush(t.Context()))
	require.NoError(t, tn.End())
	require.NoError(t, begin(t, s).End()) // closes the draft
	require.Equal(t, 1, strings.Count(storetest.History(t, s), "a line"))
}
