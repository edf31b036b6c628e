package search_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Queries that could cost minutes are refused, and the recall tools refuse the same.
func TestBoundedQueries(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids, err := s.Append(t.Context(), transcript.UserText(strings.Repeat("a", 1_000)))
	require.NoError(t, err)
	many := make([]string, 65)
	for i := range many {
		many[i] = "w" + strings.Repeat("x", i)
	}
	read, find := search.RecallTools(s)[2], search.RecallTools(s)[0]
	for _, pattern := range []string{strings.Repeat("a?", 50_000) + "b", strings.Repeat("a?", 600) + "b", "(a?){600}", strings.Repeat("a", 2049)} {
		for _, err := range search.Session(t.Context(), s, search.Query{Regexp: pattern}) {
			require.ErrorIs(t, err, search.ErrQuery)
		}
		_, err = search.Read(t.Context(), s, ids[0], search.Slice{Match: pattern})
		require.ErrorIs(t, err, search.ErrQuery)
		input, err := json.Marshal(map[string]string{"entry": ids[0], "match": pattern})
		require.NoError(t, err)
		_, err = read.Call(t.Context(), input)
		require.ErrorIs(t, err, search.ErrQuery)
	}
	for _, text := range []string{strings.Join(many, " "), strings.Repeat("x", 4097)} {
		for _, err := range search.Session(t.Context(), s, search.Query{Text: text}) {
			require.ErrorIs(t, err, search.ErrQuery)
		}
		input, err := json.Marshal(map[string]string{"query": text})
		require.NoError(t, err)
		_, err = find.Call(t.Context(), input)
		require.ErrorIs(t, err, search.ErrQuery)
	}
	for _, err := range search.Session(t.Context(), s, search.Query{Text: strings.Join(many[1:], " ")}) {
		require.NoError(t, err)
	}
	require.Contains(t, string(read.InputSchema), `"maxLength":2048`)
	require.Contains(t, string(find.InputSchema), `"maxLength":4096`)
}

// lateContext ends after some calls of Err: a context that ends during work.
type lateContext struct {
	context.Context
	left int
}

func (c *lateContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A costly pattern on a long line stops when its context ends. Otherwise the test takes
// many seconds.
func TestPatternAsksContext(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids, err := s.Append(t.Context(), transcript.UserText(strings.Repeat("a", 1_000_000)))
	require.NoError(t, err)
	pattern := strings.Repeat("a?", 450) + "b"
	_, err = search.Read(&lateContext{t.Context(), 20}, s, ids[0], search.Slice{Match: pattern})
	require.ErrorIs(t, err, context.Canceled)
}
