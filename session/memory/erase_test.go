package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// filesWith returns the files with a word in their name or text.
func filesWith(t *testing.T, dir, word string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			data, err = os.ReadFile(name)
			if bytes.Contains(data, []byte(word)) {
				list = append(list, name)
			}
		}
		if rel, _ := filepath.Rel(dir, name); strings.Contains(rel, word) {
			list = append(list, name)
		}
		return err
	}))
	return list
}

func learn(t *testing.T, m *Store, c *talk, found ...Candidate) Result {
	t.Helper()
	m.opts.Extractor = finds(found...)
	r, err := m.Extract(t.Context(), c.Session, c.commit("hi"))
	require.NoError(t, err)
	return r
}

func TestEraseOwner(t *testing.T) {
	dir := t.TempDir()
	m := openStore(t, dir, nil)
	a, b := newTalk(t, "anna"), newTalk(t, "bert")
	learn(t, m, a, candidate(profile, "", "anna is here", ""), candidate(cases, "anna", "a case of anna", ""))
	learn(t, m, b, candidate(profile, "", "bert is here", ""))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "owners/anna/note.txt"), []byte("of anna"), 0o600))

	plan, err := m.PlanErase(t.Context(), transcript.Subject{Owner: "anna"})
	require.NoError(t, err)
	require.Len(t, plan, 3)
	require.NotEmpty(t, filesWith(t, dir, "anna"))
	done, err := m.Erase(t.Context(), transcript.Subject{Owner: "anna"})
	require.NoError(t, err)
	require.Equal(t, plan, done)
	require.Empty(t, filesWith(t, dir, "anna"))
	require.Len(t, memories(t, m, Scope{"main", "bert"}), 1)
	again, err := m.Erase(t.Context(), transcript.Subject{Owner: "anna"})
	require.NoError(t, err)
	require.Empty(t, again)
	none, err := m.Erase(t.Context(), transcript.Subject{})
	require.NoError(t, err)
	require.Empty(t, none)
}

// Erasing one source deletes the memories merged from it, and reopens the other
// commits.
func TestEraseMatch(t *testing.T) {
	dir := t.TempDir()
	m := openStore(t, dir, nil)
	c := newTalk(t, "anna")
	learn(t, m, c, candidate(preferences, "drinks", "Likes tea", ""))
	r := learn(t, m, c, candidate(preferences, "drinks", "Dislikes SECRET", ""), candidate(entities, "cat", "The cat is Mia", ""))
	learn(t, m, c, candidate(preferences, "drinks", "Likes tea", ""))
	learn(t, m, c, candidate(entities, "dog", "The dog is Rex", ""))

	subject := transcript.Subject{Match: func(e transcript.Entry) bool {
		var app struct{ Memory Memory }
		_ = json.Unmarshal(e.App, &app)
		for _, s := range app.Memory.Sources {
			if s.Commit == r.Commit {
				return app.Memory.Category == "" && strings.Contains(app.Memory.Abstract, "SECRET")
			}
		}
		return false
	}}
	plan, err := m.PlanErase(t.Context(), subject)
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, p := range plan {
		kinds[p.Kind]++
	}
	require.Equal(t, map[string]int{"memory": 1, "diff": 3}, kinds)
	_, err = m.Erase(t.Context(), subject)
	require.NoError(t, err)
	require.Empty(t, filesWith(t, dir, "SECRET"))
	pending, err := m.Pending(t.Context(), c.Session)
	require.NoError(t, err)
	require.Equal(t, []string{"chapter_001", "chapter_002", "chapter_003"}, pending)

	for _, name := range pending { // the chapters now lack the word
		m.opts.Extractor = finds(candidate(preferences, "drinks", "Likes tea", ""))
		if name == "chapter_002" {
			m.opts.Extractor = finds(candidate(entities, "cat", "The cat is Mia", ""))
		}
		_, err := m.Extract(t.Context(), c.Session, name)
		require.NoError(t, err)
	}
	require.Equal(t, map[string]string{
		"owners/anna/user/memories/preferences/drinks.md": "Likes tea\n",
		"owners/anna/user/memories/entities/cat.md":       "The cat is Mia\n",
		"owners/anna/user/memories/entities/dog.md":       "The dog is Rex\n",
	}, files(t, dir))
}

// Shared memories have an owner in each source.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	m := openStore(t, dir, &Options{Shared: true})
	a, b := newTalk(t, "anna"), newTalk(t, "bert")
	learn(t, m, a, candidate(patterns, "tests", "Write tests first", ""), candidate(profile, "", "anna is here", ""))
	learn(t, m, b, candidate(patterns, "tests", "Run tests often", ""), candidate(cases, "db", "The disk was full", ""))
	require.Len(t, memories(t, m, Scope{"main", "carl"}), 2)
	_, err := m.Erase(t.Context(), transcript.Subject{Owner: "anna"})
	require.NoError(t, err)
	require.Empty(t, filesWith(t, dir, "anna"))
	require.Empty(t, filesWith(t, dir, "tests first"))
	require.Len(t, memories(t, m, Scope{"main", "carl"}), 1)
	pending, err := m.Pending(t.Context(), b.Session)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	m.opts.Extractor = finds(candidate(patterns, "tests", "Run tests often", ""), candidate(cases, "db", "The disk was full", ""))
	r, err := m.Extract(t.Context(), b.Session, pending[0])
	require.NoError(t, err)
	require.Equal(t, transcript.ExtractedCount{Skipped: 1}, r.Counts["cases"])
	require.Len(t, memories(t, m, Scope{"main", "carl"}), 2)
}

// A person edits, renames and deletes files between commits, and no edit is lost.
func TestPerson(t *testing.T) {
	dir, c := t.TempDir(), newTalk(t, "anna")
	var seen []Memory
	m := openStore(t, dir, nil)
	learn(t, m, c, candidate(preferences, "editor", "Uses vim", ""), candidate(preferences, "shell", "Uses bash", ""), candidate(entities, "cat", "The cat is Mia", ""))
	prefs := filepath.Join(dir, "owners/anna/user/memories/preferences")
	change := func(name, old, new string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(prefs, name))
		require.NoError(t, err)
		require.Contains(t, string(data), old)
		require.NoError(t, os.WriteFile(filepath.Join(prefs, name), []byte(strings.Replace(string(data), old, new, 1)), 0o600))
	}
	change("editor.md", "Uses vim", "Uses vim, but only over ssh")
	require.NoError(t, os.Rename(filepath.Join(prefs, "shell.md"), filepath.Join(prefs, "My Shell.md")))
	require.NoError(t, os.Remove(filepath.Join(dir, "owners/anna/user/memories/entities/cat.md")))
	require.NoError(t, os.WriteFile(filepath.Join(prefs, "font.md"), []byte("Likes large fonts\n"), 0o600))

	m.opts.Decider = deciderFunc(func(ctx context.Context, c Candidate, similar []Memory) (Decision, error) {
		seen = append(seen, similar[0])
		return lexical{}.Decide(ctx, c, similar)
	})
	r := learn(t, m, c, candidate(preferences, "editor", "Uses emacs now", ""), candidate(preferences, "shell", "Uses zsh now", ""), candidate(preferences, "font", "Likes Go Mono", ""))
	require.Equal(t, transcript.ExtractedCount{Merged: 3}, r.Counts["preferences"])
	require.Equal(t, "Uses vim, but only over ssh", seen[0].Abstract)
	require.True(t, seen[0].Edited)
	require.False(t, seen[1].Edited)
	require.Equal(t, map[string]string{
		"owners/anna/user/memories/preferences/editor.md":   "Uses vim, but only over ssh\n\n## Content\n\nLater:\n\nUses emacs now\n",
		"owners/anna/user/memories/preferences/My Shell.md": "Uses zsh now\n\n## Content\n\nEarlier:\n\nUses bash\n",
		"owners/anna/user/memories/preferences/font.md":     "Likes large fonts\n\n## Content\n\nLater:\n\nLikes Go Mono\n",
	}, files(t, dir))
	mem, err := m.Get(t.Context(), anna, "viking://user/memories/preferences/My Shell.md")
	require.NoError(t, err)
	require.NoError(t, m.Delete(t.Context(), anna, mem.ID))
	require.ErrorIs(t, m.Delete(t.Context(), anna, mem.ID), fs.ErrNotExist)

	// A deleted memory comes back only when it is learned again.
	learn(t, m, c, candidate(entities, "dog", "The dog is Rex", ""))
	require.Len(t, memories(t, m, anna), 3)
	learn(t, m, c, candidate(entities, "cat", "The cat is Mia", ""))
	require.Len(t, memories(t, m, anna), 4)
}

// An erase that is stopped before any removal is finished by the next.
func TestEraseStopped(t *testing.T) {
	from, c, other := t.TempDir(), newTalk(t, "anna"), newTalk(t, "bert")
	m := openStore(t, from, &Options{Shared: true})
	learn(t, m, c, candidate(preferences, "drinks", "Likes tea", ""), candidate(cases, "x", "A SECRET case", ""))
	learn(t, m, c, candidate(preferences, "drinks", "Likes SECRET", ""), candidate(patterns, "y", "A SECRET pattern", ""))
	learn(t, m, c, candidate(preferences, "drinks", "Likes coffee", ""))
	learn(t, m, other, candidate(patterns, "y", "A pattern", ""))
	for name, subject := range map[string]transcript.Subject{
		"owner": {Owner: "anna"},
		"word":  {Match: func(e transcript.Entry) bool { return bytes.Contains(e.Line(), []byte("SECRET")) }},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				dir, n := copied(t, from), 0
				m := openStore(t, dir, &Options{Shared: true})
				m.announce = func(string) {
					if n++; n == at {
						panic(stopped{})
					}
				}
				erase := func() (ended bool) {
					defer func() { _ = recover() }()
					_, err := m.Erase(t.Context(), subject)
					require.NoError(t, err)
					return true
				}
				ended := erase()
				if !ended {
					require.True(t, erase())
				}
				require.Empty(t, filesWith(t, dir, "SECRET"))
				if subject.Owner != "" {
					require.Empty(t, filesWith(t, dir, "anna"))
				}
				for _, c := range []*talk{c, other} { // merged memories are learned again
					pending, err := m.Pending(t.Context(), c.Session)
					require.NoError(t, err)
					require.Len(t, pending, len(c.chapters()))
				}
				if ended {
					require.Greater(t, at, 4)
					break
				}
			}
		})
	}
}

// Sessions without an owner have no memories.
func TestNobody(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { require.NoError(t, st.Close()) }()
	s, err := st.Load(t.Context(), key)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("hi"), transcript.AssistantText("hello"))
	require.NoError(t, err)
	done, err := Commit(t.Context(), s, nil)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "memory")
	m := openStore(t, dir, &Options{Extractor: finds(candidate(profile, "", "x", ""))})
	_, err = m.Extract(t.Context(), s, done.Chapter)
	require.ErrorIs(t, err, errOwner)
	for _, err := range m.List(t.Context(), Scope{Agent: "main"}) {
		require.ErrorIs(t, err, errOwner)
	}
	require.ErrorIs(t, m.Delete(t.Context(), Scope{}, "x"), errOwner)
	pending, err := m.Pending(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{done.Chapter}, pending)
	require.NoDirExists(t, dir)
	_, err = Open(nil, nil)
	require.Error(t, err)
}
