package memory

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// No model is paid for a chapter while present memories cannot be read.
func TestUnreadableIsNotPaid(t *testing.T) {
	dir, c, paid := t.TempDir(), newTalk(t, "anna"), 0
	m := openStore(t, dir, &Options{Extractor: extractorFunc(func(context.Context, Input) ([]Candidate, error) {
		paid++
		return []Candidate{candidate(entities, "cat", "The cat is Mia", "")}, nil
	})})
	name := filepath.Join(dir, "owners/anna/user/memories/entities/long.md")
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, make([]byte, maxMemory+1), 0o600))
	chapter := c.commit("hi")
	for range 3 {
		_, err := m.Extract(t.Context(), c.Session, chapter)
		require.ErrorContains(t, err, "long.md")
	}
	require.Zero(t, paid)
	require.NoError(t, os.Remove(name))
	_, err := m.Extract(t.Context(), c.Session, chapter)
	require.NoError(t, err)
	require.Equal(t, 1, paid)
}

// A file in another encoding, as an editor may save it, is refused and stays unchanged.
func TestOtherEncoding(t *testing.T) {
	dir, c := t.TempDir(), newTalk(t, "anna")
	m := openStore(t, dir, nil)
	learn(t, m, c, candidate(preferences, "cafe", "Likes a café", ""))
	name := filepath.Join(dir, "owners/anna/user/memories/preferences/cafe.md")
	const latin = "Likes a caf\xe9, and M\xfcnchen\n"
	require.NoError(t, os.WriteFile(name, []byte(latin), 0o600))
	m.opts.Extractor = finds(candidate(preferences, "cafe", "Likes the bar", ""))
	_, err := m.Extract(t.Context(), c.Session, c.commit("hi"))
	require.ErrorContains(t, err, "cafe.md")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, latin, string(data))
}

// An Index loses erased memories under all of their names.
func TestEraseIndexOfPersons(t *testing.T) {
	for name, person := range map[string]func(t *testing.T, m *Store, file string){
		"renamed": func(t *testing.T, _ *Store, file string) {
			require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), "other.md")))
		},
		"deleted": func(t *testing.T, _ *Store, file string) { require.NoError(t, os.Remove(file)) },
		"changed": func(t *testing.T, _ *Store, file string) {
			require.NoError(t, os.WriteFile(file, []byte("Has a cat\n"), 0o600))
		},
		"written": func(t *testing.T, m *Store, file string) {
			mine := filepath.Join(filepath.Dir(file), "mine.md")
			require.NoError(t, os.WriteFile(mine, []byte("The SECRET of a person\n"), 0o600))
			require.NoError(t, m.Reindex(t.Context(), anna))
			require.NoError(t, os.Remove(mine))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, near := t.TempDir(), &compass{has: map[string]map[string][2]string{}}
			m := openStore(t, dir, &Options{Index: near})
			c := newTalk(t, "anna")
			learn(t, m, c, candidate(entities, "cat", "The cat is SECRET", ""), candidate(entities, "dog", "The dog is Rex", ""))
			person(t, m, filepath.Join(dir, "owners/anna/user/memories/entities/cat.md"))
			_, err := m.Erase(t.Context(), transcript.Subject{Match: func(e transcript.Entry) bool {
				f, _ := e.Body.(transcript.MessageLine)
				return strings.Contains(f.Message().Text(), "SECRET")
			}})
			require.NoError(t, err)
			kept := 0
			for file, has := range near.has["owners/anna"] {
				require.NotContains(t, has[1], "SECRET", file)
				if strings.HasSuffix(file, "dog.md") {
					kept++
				}
			}
			require.Equal(t, 1, kept)
		})
	}
}
