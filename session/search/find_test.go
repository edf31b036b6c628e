package search_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// ByPrefix ignores the sessions of others.
func TestFindStaysInTheFilter(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	for _, owner := range []string{"ann", "bob"} {
		_, err := st.Create(t.Context(), session.Key{Agent: "main", Channel: "web", Peer: owner},
			&session.CreateOptions{ID: "id-" + owner, Title: "My trip", Owner: owner})
		require.NoError(t, err)
	}
	ann := &session.ListOptions{Owner: "ann", Limit: 1, After: "ignored"}
	for _, query := range []string{"id", "my", "main:web", "id-ann"} {
		info, err := search.ByPrefix(t.Context(), st, query, ann)
		require.NoError(t, err)
		require.Equal(t, "id-ann", info.ID)
	}
	for _, query := range []string{"id-bob", "main:web:bob"} {
		_, err := search.ByPrefix(t.Context(), st, query, ann)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err := search.ByPrefix(t.Context(), st, "my", nil)
	amb, ok := errors.AsType[*search.AmbiguousError](err)
	require.True(t, ok)
	require.Len(t, amb.Matches, 2)
	require.Contains(t, amb.Error(), amb.Matches[1].ID)
	for range 998 {
		amb.Matches = append(amb.Matches, amb.Matches[0])
	}
	require.Contains(t, amb.Error(), "fits 1000 sessions")
	require.Equal(t, 4, strings.Count(amb.Error(), amb.Matches[0].ID))
	require.Less(t, len(amb.Error()), 200)
}

// ByPrefix finds a session by its ID, key and title, after a restart and even with a
// broken index.
func TestByPrefix(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	a := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, a, transcript.UserText("  Fix the\tparser \nplease"))
	b, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{ID: "my-id", Title: "Project X", Labels: []string{"l"}})
	require.NoError(t, err)
	storetest.Add(t, b, transcript.UserText("hello"))
	other := storetest.Load(t, st, session.Key{Agent: "other", Channel: "cli", Peer: "user"})
	storetest.Add(t, other, transcript.UserText("other agent"))
	check := func(st *session.Store) {
		t.Helper()
		for query, want := range map[string]string{
			"my-id": "my-id", "my": "my-id", "project": "my-id", "main:cli:user": "my-id", "main:": "my-id",
			"fix": a.Ref().ID, "ｆｉｘ the": a.Ref().ID, "ﬁx": a.Ref().ID, a.Ref().ID: a.Ref().ID, "OTHER A": other.Ref().ID,
		} {
			if info, err := search.ByPrefix(t.Context(), st, query, nil); err != nil || info.ID != want {
				t.Errorf("Find(%q) = %q, %v, want %q", query, info.ID, err, want)
			}
		}
		_, err := search.ByPrefix(t.Context(), st, "0", nil)
		if amb, ok := errors.AsType[*search.AmbiguousError](err); !ok || len(amb.Matches) != 2 {
			t.Errorf("Find(0) = %v, want an AmbiguousError with two matches", err)
		}
		for _, query := range []string{"zzz", "", "\u200b"} {
			if _, err := search.ByPrefix(t.Context(), st, query, nil); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Find(%q) = %v, want fs.ErrNotExist", query, err)
			}
		}
	}
	check(st)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	check(st)
	storetest.Close(t, st)
	for _, broken := range []string{"", "{", "[]", `{"main:cli:user":{"session_id":"x"}}`, "\x00\x00"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(broken), 0o600))
		st = storetest.Open(t, dir, nil)
		check(st)
		storetest.Close(t, st)
	}
}

// ByPrefix finds an imported session by the ID that it had in its program.
func TestByPrefixOfPeer(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	old := storetest.Load(t, st, session.Key{Agent: "main", Channel: "claw0", Peer: "an old:id"})
	storetest.Load(t, st, session.Key{Agent: "main", Channel: "claw0", Peer: "an old:id, longer"})
	info, err := search.ByPrefix(t.Context(), st, "an old:id", nil)
	require.NoError(t, err)
	require.Equal(t, old.Ref(), info.Ref)
	_, err = search.ByPrefix(t.Context(), st, "old:id", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
