package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// hold appends an answer with two calls to a session, and holds the calls.
func (sh *shell) hold(id string) {
	sh.Helper()
	store, err := session.Open(sh.dir, nil)
	require.NoError(sh, err)
	s, err := store.Get(sh.Context(), session.Ref{Agent: "main", ID: id})
	require.NoError(sh, err)
	_, err = s.Append(sh.Context(), &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "call_1", Name: "pay", Input: json.RawMessage(`{"euros":5}`)},
		transcript.ToolCallBlock{ID: "call_2", Name: "pay", Input: json.RawMessage(`{"euros":900,"to":"\u001b[2J"}`)},
	}}})
	require.NoError(sh, err)
	p, err := s.Pending(sh.Context())
	require.NoError(sh, err)
	require.Len(sh, p.Calls, 2)
	for _, call := range p.Calls {
		require.NoError(sh, turn.Decide(sh.Context(), s, call.Entry, transcript.Hold, "policy", ""))
	}
	require.NoError(sh, store.Close())
}

// The inbox lists the calls that wait for a person. One decision stands.
func TestPending(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			sh.env = map[string]string{"CONVOLOG_TOKEN": "secret", "USER": "anna"}
			sh.must(0, "session", "new", "--id", "alpha")
			require.Equal(t, "Nothing waits.\n", sh.must(0, "pending"))
			sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "Pay both.")
			require.Regexp(t, `\nalpha +- +[^-]+ answer +Pay both\.\n`, sh.must(0, "pending"))
			sh.hold("alpha")
			out := sh.must(0, "pending")
			require.Regexp(t, `\nalpha +[0-9a-f]{6,} +[^-]+ approval +pay \{"euros":5\}\n`, out)
			require.NotContains(t, out, "\x1b")

			sh.must(0, "approve", "alpha", "call_1")
			_, errs, code := sh.run("reject", "alpha", "call_1", "--reason", "no")
			require.Equal(t, exitFailed, code, errs)
			require.Contains(t, errs, "already approved")
			sh.must(0, "reject", "alpha", "_2", "--reason", "too expensive")
			_, errs, code = sh.run("approve", "alpha", "call_2")
			require.Equal(t, exitFailed, code)
			require.Contains(t, errs, "already rejected")
			_, errs, code = sh.run("approve", "alpha", "nowhere")
			require.Equal(t, exitAbsent, code)
			require.Contains(t, errs, "convolog pending lists the calls")
			out = sh.must(0, "pending")
			require.Contains(t, out, "tool") // the approved call
			require.NotContains(t, out, "approval")
			require.Contains(t, sh.must(0, "session", "export", "alpha"), `"decision":"approve"`)
		})
	}
}
