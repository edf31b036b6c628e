package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
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

			sh.screen, sh.env["COLUMNS"], sh.env["NO_COLOR"] = true, "34", "1"
			out = sh.must(0, "pending")
			require.Contains(t, out, "\n  pay {\"euros\":5}\n", "even a narrow terminal shows the work")
			require.Contains(t, out, "…\n")
			out = sh.must(0, "pending", "--full")
			require.Contains(t, out, `"to":"\u001b[2J"}`)
			require.NotContains(t, out, "…")
			sh.screen = false

			sh.must(exitAbsent, "approve", "alpha", "1") // the end of call_1, by chance
			sh.must(0, "approve", "alpha", "call_1")
			_, errs, code := sh.run("reject", "alpha", "call_1", "--reason", "no")
			require.Equal(t, exitFailed, code, errs)
			require.Contains(t, errs, "already approved")
			sh.must(0, "reject", "alpha", "all_2", "--reason", "too expensive")
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
			require.Regexp(t, `without a result, approved: pay call_1\n`, sh.must(0, "session", "get", "alpha"))
		})
	}
}

// A conversation shows who has decided, and why.
func TestDecisionIsShown(t *testing.T) {
	for want, d := range map[string]transcript.Decision{
		"-- call call_1: hold\n":                          {CallID: "call_1", Verdict: transcript.Hold},
		"-- call call_1: reject by anna: too expensive\n": {CallID: "call_1", Verdict: transcript.Reject, By: "anna", Reason: "too expensive"},
	} {
		var out bytes.Buffer
		v := view{call: &call{console: (&shell{TB: t}).console(&out, io.Discard), options: &options{}}}
		require.NoError(t, v.entry(transcript.Entry{Body: d}))
		require.Equal(t, want, out.String())
	}
}

// A whole ID wins over the beginning of another one.
func TestCallsNamed(t *testing.T) {
	calls := []rebuild.PendingCall{
		{Entry: "01a22025-450b-7cde-9aa9-a9ef75dc28f2", Call: transcript.ToolCallBlock{ID: "call_1"}},
		{Entry: "01a22025-450b-7ce1-baf4-3ff6392c4866", Call: transcript.ToolCallBlock{ID: "call_11"}},
	}
	for name, want := range map[string][]rebuild.PendingCall{
		"call_1": calls[:1], "call_11": calls[1:], "call": calls, "75dc28f2": calls[:1], "28f2": calls[:1],
		"8f2": nil, "01a22025": calls, calls[1].Entry: calls[1:], "other": nil,
	} {
		require.Equal(t, want, callsNamed(calls, name), name)
	}
}

// A brokenBackend lists three sessions: one that another process has deleted since, one
// that cannot be read, and one that waits.
type brokenBackend struct{ backend }

func (brokenBackend) List(context.Context, *session.ListOptions) (infos []session.Info, _ error) {
	for _, id := range []string{"gone", "broken", "alpha"} {
		infos = append(infos, session.Info{Ref: session.Ref{Agent: "main", ID: id}})
	}
	return infos, nil
}

func (brokenBackend) describe(_ context.Context, ref session.Ref) (d described, _ error) {
	switch ref.ID {
	case "gone":
		return d, fs.ErrNotExist
	case "broken":
		return d, errors.New("the disk is broken")
	}
	d.Pending.User = "And now?"
	return d, nil
}

// The inbox shows the readable sessions, and then fails for the others.
func TestPendingOfOthers(t *testing.T) {
	var out bytes.Buffer
	c := &call{console: (&shell{TB: t}).console(&out, io.Discard), options: &options{}, backend: brokenBackend{}}
	require.EqualError(t, pending(t.Context(), c), "the disk is broken")
	require.Regexp(t, `\nalpha +- +- +answer +And now\?\n$`, out.String())
}
