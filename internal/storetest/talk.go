package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Answer returns a response with a text and tool calls.
func Answer(text string, calls ...string) *transcript.Response {
	r := &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{Role: transcript.RoleAssistant}}
	if text != "" {
		r.Message.Content = append(r.Message.Content, transcript.TextBlock{Text: text})
	}
	for _, id := range calls {
		r.StopReason = transcript.StopToolUse
		r.Message.Content = append(r.Message.Content, transcript.ToolCallBlock{ID: id, Name: "read_file", Input: json.RawMessage(`{"path": "a.go"}`)})
	}
	return r
}

// Talk appends n turns of plain text, with numbers that begin with from.
func Talk(t testing.TB, s *session.Session, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		Add(t, s, transcript.UserText(fmt.Sprintf("question %d, with some words that a summary leaves out", i)),
			Answer(fmt.Sprintf("answer %d, with some words that a summary leaves out", i)))
	}
}
