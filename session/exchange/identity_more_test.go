package exchange_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// An export that its program continued without a word is more than the session: by a call
// and its result, by another result, or by a picture.
func TestImportBackWithoutWords(t *testing.T) {
	call := func(input, result string) []transcript.Item {
		return []transcript.Item{
			transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "c1", Name: "bash", Input: []byte(input)}}},
			transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ToolResultBlock{CallID: "c1", Content: []transcript.Block{transcript.TextBlock{Text: result}}}}},
		}
	}
	const first = `{"cmd":"ls","all":true}`
	for name, more := range map[string][]transcript.Item{
		"call": call(`{"cmd":"ls","all":false}`, "a.txt"), "result": call(first, "precious"), "picture": {picture(2)},
	} {
		for _, to := range writable {
			if name == "picture" && (to == dialect.MiniClaw || to == dialect.Claw0 || to == dialect.OpenViking) {
				continue // without pictures
			}
			st, theirs := inMemory(), inMemory()
			s := load(t, st)
			add(t, s, transcript.UserText("list the files"))
			copied(t, st, theirs)
			add(t, s, call(first, "a.txt")...)
			continued, err := theirs.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			add(t, continued, more...)
			source := sessionsIn(t, exportAll(t, to, dialect.Session{}, continued))
			im := importAll(t, st, source, nil)[0]
			require.True(t, im.Created, "%s to %s", name, to)
			require.NotEqual(t, s.Ref(), im.Session, "%s to %s", name, to)
			again := importAll(t, st, source, nil)[0]
			require.Equal(t, im.Session, again.Session, "%s to %s", name, to)
			require.Zero(t, again.Appended, "%s to %s", name, to)
		}
	}
}

// A source with other results and the same words is not the imported session.
func TestImportOfOtherResults(t *testing.T) {
	st := inMemory()
	s := load(t, st)
	add(t, s, transcript.UserText("list"), transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "c1", Name: "ls", Input: []byte(`{}`)}}},
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ToolResultBlock{CallID: "c1", Content: []transcript.Block{transcript.TextBlock{Text: "old.txt"}}}}})
	files := exportAll(t, dialect.Claw0, dialect.Session{}, s)
	to := inMemory()
	importAll(t, to, sessionsIn(t, files), nil)
	for _, f := range files {
		f.Data = bytes.ReplaceAll(f.Data, []byte("old.txt"), []byte("new.txt"))
	}
	_, err := exchange.Import(t.Context(), to, sessionsIn(t, files), nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
}

// A text that begins like a context of Codex stays a text of the user, and sessions of one
// ID and two agents get files of two IDs.
func TestImportBackOfLikeAndSame(t *testing.T) {
	for _, apart := range []time.Duration{0, time.Second} { // names of Codex hold the second
		likeAndSame(t, apart)
	}
}

func likeAndSame(t *testing.T, apart time.Duration) {
	st := inMemory()
	for n, agent := range []string{"one", "two"} {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * apart)
		s, err := st.Create(t.Context(), session.Key{Agent: agent, Channel: "cli", Peer: "x"}, &session.CreateOptions{
			Header: &transcript.Entry{ID: "same", Time: at, Body: transcript.Header{Created: at}},
		})
		require.NoError(t, err)
		ids := add(t, s, transcript.UserText("# AGENTS.md instructions for me"), transcript.AssistantText("of "+agent), transcript.UserText("<environment_context> what is it?"))
		add(t, s, transcript.Compaction{Summary: "S", FirstKept: ids[2], CoversTo: ids[1], Said: []transcript.Carried{{Text: "<skill> said"}}})
	}
	other := inMemory()
	for _, to := range []dialect.Dialect{dialect.ClaudeCode, dialect.Codex} {
		var both []*session.Session
		for _, agent := range []string{"one", "two"} {
			s, err := st.Get(t.Context(), session.Ref{Agent: agent, ID: "same"})
			require.NoError(t, err)
			both = append(both, s)
		}
		ids := map[string]bool{}
		files := exportAll(t, to, dialect.Session{}, both...)
		for _, im := range importAll(t, st, sessionsIn(t, files), nil) {
			require.Zero(t, im.Appended, "%s: %s became %s", to, im.Source.ID, im.Session)
		}
		for _, im := range importAll(t, other, sessionsIn(t, files), nil) {
			require.Contains(t, im.Source.Path, im.Source.ID)
			require.NotContains(t, im.Source.Path, "_2")
			ids[im.Source.ID] = true
			history, _ := importedHistory(t, other, im.Session)
			for _, text := range []string{"environment_context", "skill"} {
				require.Contains(t, history, text, "%s", to)
			}
		}
		require.Len(t, ids, 2)
	}
}
