package exchange_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// writable are the programs whose files an export writes.
var writable = []dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking}

// addsNothing exports all sessions of a store to each program and imports the files.
func addsNothing(t *testing.T, st *session.Store, name string) {
	t.Helper()
	before, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.NotEmpty(t, before)
	var sessions []*session.Session
	for _, info := range before {
		s, err := st.Get(t.Context(), info.Ref)
		require.NoError(t, err)
		sessions = append(sessions, s)
	}
	for _, to := range writable {
		report := importAll(t, st, sessionsIn(t, exportAll(t, to, dialect.Session{}, sessions...)), nil)
		require.Len(t, report, len(before))
		for _, im := range report {
			require.NoError(t, im.Err)
			require.Zero(t, im.Appended, "%s to %s: %s became %s", name, to, im.Source.ID, im.Session)
			require.False(t, im.Created, "%s to %s: %s became %s", name, to, im.Source.ID, im.Session)
		}
	}
	after, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.Equal(t, before, after, name)
}

// Sessions of any program go back to it, or to another one, under their IDs, and an import
// of the written files adds nothing, even if they were continued here.
func TestImportBackFromAll(t *testing.T) {
	for _, program := range []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code", "codex", "chatgpt", "claude-ai", "opencode", "gemini-cli"} {
		st := inMemory()
		importAll(t, st, sessionsIn(t, os.DirFS(samples+program)), nil)
		addsNothing(t, st, program)
		infos, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		for _, info := range infos {
			s, err := st.Get(t.Context(), info.Ref)
			require.NoError(t, err)
			talk(t, s, 2)
		}
		addsNothing(t, st, program+", continued")
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
						transcript.TextBlock{Text: "Now."},
						transcript.ContextBlock{URI: "viking://resources/a/", Kind: "resource", Abstract: "A guide"},
					}})
					ids := add(t, s, transcript.AssistantText("So."), transcript.UserText("Again?"))
					if turn == 1 {
						add(t, s, transcript.Compaction{Summary: "S", FirstKept: ids[1], CoversTo: ids[0]})
					}
				}
			}
		}
		addsNothing(t, st, st.Owner())
	}
	addsNothing(t, all, "all owners")
}
