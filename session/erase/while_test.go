package erase_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// The words that a model has written from a View do not come back after an erase, even if
// another Store has erased and the session was read meanwhile.
func TestCompactWhileErased(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprint("elsewhere ", elsewhere), func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, nil)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			ids := storetest.Add(t, s, transcript.UserText("my password is XYZZY-4711"))
			for i := range 10 {
				storetest.Add(t, s, storetest.Answer(strings.Repeat("a long answer ", 100)), transcript.UserText(fmt.Sprint("question ", i)))
			}
			eraser := st
			if elsewhere {
				eraser = storetest.Open(t, dir, nil)
				defer storetest.Close(t, eraser)
			}
			_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Tokens: 500}, Summarizer: compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
				p, err := erase.Preview(ctx, eraser, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids}}})
				require.NoError(t, err)
				_, err = erase.Run(ctx, eraser, p)
				require.NoError(t, err)
				_, err = s.History(t.Context())
				if elsewhere && errors.Is(err, session.ErrReplaced) {
					_, err = s.History(t.Context())
				}
				require.NoError(t, err)
				return "The user said that the password is XYZZY-4711. " + storetest.WholeSummary, nil
			})})
			require.ErrorIs(t, err, session.ErrReplaced)
			require.NotContains(t, storetest.History(t, s), "XYZZY")
			for e, err := range s.Entries(t.Context(), "") {
				require.NoError(t, err)
				require.NotContains(t, string(e.Line()), "XYZZY")
			}
		})
	}
}

// An outline is made once for many calls, and after an erase anew.
func TestWhereErased(t *testing.T) {
	dir := t.TempDir()
	st, other := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"))
	ids = append(ids, storetest.Add(t, s, transcript.UserText(storetest.Word))...)
	ids = append(ids, storetest.Add(t, s, transcript.Rewind{To: ids[0]})...)
	theirs, err := other.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	before, err := theirs.Where(t.Context(), ids...)
	require.NoError(t, err)
	require.Equal(t, map[string]rebuild.Where{ids[0]: {}, ids[1]: {Rewound: true}, ids[2]: {}}, before)
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[1:2]}}})
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	after, err := theirs.Where(t.Context(), ids...)
	require.NoError(t, err)
	require.Equal(t, before, after)
	storetest.Add(t, s, transcript.Rewind{To: ids[1]})
	after, err = theirs.Where(t.Context(), ids...)
	require.NoError(t, err)
	require.Equal(t, map[string]rebuild.Where{ids[0]: {}, ids[1]: {}, ids[2]: {}}, after)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.ErrorContains(t, storetest.ErrOf(theirs.Where(t.Context(), ids...)), s.Ref().ID)
	storetest.Close(t, st)
	storetest.Close(t, other)
}
