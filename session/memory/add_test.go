package memory

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

// Memories of OpenViking enter a store unchanged, and are found there.
func TestAdd(t *testing.T) {
	t.Parallel()
	folder, err := dialect.ReadFolder(fstest.MapFS{
		"session/s1/messages.jsonl":                {Data: []byte(`{"id":"msg_1","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2026-01-02T03:04:05"}` + "\n")},
		"user/memories/profile.md":                 {Data: []byte("Ana is a nurse.\n")},
		"user/memories/preferences/mem_1.md":       {Data: []byte("tea: green\n\nNever with milk.\n")},
		"agent/memories/cases/mem_2.md":            {Data: []byte("The build failed.\n")},
		"agent/memories/skills/of a later kind.md": {Data: []byte("?\n")},
	})
	require.NoError(t, err)
	dir := t.TempDir()
	m, err := Open(Folder(dir), nil)
	require.NoError(t, err)
	scope := Scope{Agent: "main", Owner: "ana"}
	for range 2 { // again: no effect
		n := 0
		for _, f := range folder.Memories {
			text, err := f.Text()
			require.NoError(t, err)
			_, err = m.Add(t.Context(), scope, Category(f.Category), strings.TrimSuffix(filepath.Base(f.Path), ".md"), text)
			if Category(f.Category).valid() {
				require.NoError(t, err)
				n++
			} else {
				require.ErrorContains(t, err, "no such category")
			}
		}
		require.Equal(t, 3, n)
	}
	var abstracts []string
	for mem, err := range m.List(t.Context(), scope) {
		require.NoError(t, err)
		require.True(t, mem.Edited)
		abstracts = append(abstracts, mem.Abstract)
	}
	require.ElementsMatch(t, []string{"Ana is a nurse.", "tea: green", "The build failed."}, abstracts)
	hits, err := m.Search(t.Context(), "milk", &SearchOptions{Scope: scope})
	require.NoError(t, err)
	require.Len(t, hits, 1)

	_, err = m.Add(t.Context(), scope, preferences, "mem_1", "tea: black\n")
	require.ErrorIs(t, err, fs.ErrExist)
	for _, name := range []string{"../../x", "a/b", "\x00", ".."} {
		mem, err := m.Add(t.Context(), scope, events, name, "Something was.\n")
		require.NoError(t, err)
		require.Equal(t, name, mem.Name)
	}
	for _, bad := range []struct{ name, text string }{{"", "x"}, {"x", "\xff"}, {"x", strings.Repeat("x", maxMemory+1)}} {
		_, err := m.Add(t.Context(), scope, events, bad.name, bad.text)
		require.ErrorContains(t, err, "nothing was written")
	}
	_, err = m.Add(t.Context(), Scope{Agent: "main"}, events, "x", "x")
	require.ErrorIs(t, err, errOwner)
}
