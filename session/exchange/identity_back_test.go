package exchange_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// writable are the programs whose files an export writes.
var writable = []dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex}

// addsNothing exports all sessions of a store to each program, has that many turns in
// each, and imports the files.
func addsNothing(t *testing.T, st *session.Store, name string, turns int) {
	t.Helper()
	list := func() []session.Info {
		infos, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
		require.NoError(t, err)
		require.NotEmpty(t, infos)
		return infos
	}
	for _, to := range writable {
		var sessions []*session.Session
		for _, info := range list() {
			s, err := st.Get(t.Context(), info.Ref)
			require.NoError(t, err)
			sessions = append(sessions, s)
		}
		files := exportAll(t, to, dialect.Session{}, sessions...)
		for _, s := range sessions {
			talk(t, s, turns)
		}
		before := list()
		report := importAll(t, st, sessionsIn(t, files), nil)
		require.Len(t, report, len(before))
		for _, im := range report {
			require.NoError(t, im.Err)
			require.Zero(t, im.Appended, "%s to %s: %s became %s", name, to, im.Source.ID, im.Session)
			require.False(t, im.Created, "%s to %s: %s became %s", name, to, im.Source.ID, im.Session)
		}
		require.Equal(t, before, list(), "%s to %s", name, to)
	}
}

// Sessions of any program go back to it, or to another one, under their IDs, and an import
// of the written files adds nothing, even if they were continued here.
func TestImportBackFromAll(t *testing.T) {
	for _, program := range []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code", "codex", "chatgpt", "claude-ai", "opencode", "gemini-cli"} {
		st := inMemory()
		importAll(t, st, sessionsIn(t, os.DirFS(samples+program)), nil)
		addsNothing(t, st, program, 0)
		infos, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		for _, info := range infos {
			s, err := st.Get(t.Context(), info.Ref)
			require.NoError(t, err)
			talk(t, s, 2)
		}
		addsNothing(t, st, program+", continued", 0)
		addsNothing(t, st, program+", continued after the export", 1)
	}
}

// Sessions of the store come back as well: several of a key, of another agent, compacted
// ones, one with parts that the programs turn into texts, and one without a message.
func TestImportBackOfOwn(t *testing.T) {
	all := inMemory()
	scope, err := all.Scope("ana")
	require.NoError(t, err)
	for _, st := range []*session.Store{all, scope} {
		for _, key := range []session.Key{cli, cli, {Agent: "support", Channel: "cli", Peer: "bob"}} {
			for n := range 3 {
				s, err := st.Create(t.Context(), key, nil)
				require.NoError(t, err)
				for turn := range 3 * n {
					add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
						transcript.TextBlock{Text: "How?\n\nAnd why?"},
						transcript.TextBlock{Text: "Now.\x1b[0m \u0085 \u200b\ufeff <b>"},
						transcript.ContextBlock{URI: "viking://resources/a/", Kind: "resource", Abstract: "A guide"},
					}})
					ids := add(t, s, transcript.AssistantText("So."), transcript.UserText("Again?"))
					if turn == 1 {
						add(t, s, transcript.Compaction{Summary: "S", FirstKept: ids[1], CoversTo: ids[0]})
					}
				}
			}
		}
		addsNothing(t, st, st.Owner(), 0)
	}
	addsNothing(t, all, "all owners", 0)
	addsNothing(t, all, "all owners, continued after the export", 1)
}

// A helper that was written as a session of its own comes back as the same child.
func TestImportBackOfHelpers(t *testing.T) {
	st := inMemory()
	source := sessionsIn(t, os.DirFS(samples+"reports/helper"))
	report := importAll(t, st, source, nil)
	require.Len(t, report, 2)
	children := func() []session.Info {
		infos, err := st.List(t.Context(), &session.ListOptions{Parent: report[0].Session})
		require.NoError(t, err)
		return infos
	}
	before := children()
	require.Len(t, before, 1)
	require.NotEmpty(t, before[0].Parent.Entry)
	addsNothing(t, st, "helper", 0)
	addsNothing(t, st, "helper, continued after the export", 1)
	require.Len(t, children(), 1)
	require.Equal(t, before[0].Parent, children()[0].Parent)
}

// Other sessions of the ID that a file names, or a file that was continued in its program,
// become sessions of their own, and a store without the session gets it under the ID there.
func TestImportBackOfOthers(t *testing.T) {
	for _, to := range []dialect.Dialect{dialect.Pi, dialect.ClaudeCode, dialect.Codex} {
		st := inMemory()
		s, err := st.Create(t.Context(), cli, &session.CreateOptions{ID: "from-cli"})
		require.NoError(t, err)
		add(t, s, transcript.UserText("Where were we?"), transcript.AssistantText("At the imports."))
		files := exportAll(t, to, dialect.Session{}, s)
		other := inMemory()
		im := importAll(t, other, sessionsIn(t, files), nil)[0]
		require.True(t, im.Created)
		require.Equal(t, im.Source.ID, im.Session.ID)
		require.Zero(t, importAll(t, other, sessionsIn(t, files), nil)[0].Appended)
		for _, f := range files {
			f.Data = bytes.ReplaceAll(f.Data, []byte("imports"), []byte("exports"))
		}
		for n := range 2 {
			im = importAll(t, st, sessionsIn(t, files), nil)[0]
			require.Equal(t, n == 0, im.Created, to)
			require.NotEqual(t, s.Ref(), im.Session, to)
			history, _ := importedHistory(t, st, im.Session)
			require.Contains(t, history, "At the exports.")
		}
	}
}

// An export that its program continued without words is the session's, and the report
// counts the blocks that stay away.
func TestImportBackOfSilent(t *testing.T) {
	held := 0
	for _, to := range writable {
		for kind, block := range map[string]transcript.Block{
			"thinking":        transcript.ThinkingBlock{Thinking: "deep thought", Signature: "sig"},
			"server_tool_use": transcript.RawBlock{JSON: []byte(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}`)},
		} {
			st, theirs := inMemory(), inMemory()
			s := load(t, st)
			add(t, s, transcript.UserText("list the files"), transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.ThinkingBlock{Thinking: "short"}, transcript.TextBlock{Text: "ok"},
			}})
			copied(t, st, theirs)
			continued := get(t, theirs, s.Ref())
			for range 2 {
				im := importAll(t, st, sessionsIn(t, exportAll(t, to, dialect.Session{}, continued)), nil)[0]
				require.Equal(t, s.Ref(), im.Session)
				require.Zero(t, im.Appended)
				if n := im.Lost[kind]; len(im.Lost) > 0 {
					require.Equal(t, 1, n, "%s %s: %v", to, kind, im.Lost)
					held++
				}
				add(t, continued, transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{block}})
			}
		}
	}
	require.NotZero(t, held)
}
