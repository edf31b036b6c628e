package rebuild_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Of several calls of one answer with one ID, the first gets the first result, even
// if another answer with such a call intervened and got its own.
func TestFirstCallGetsFirstResult(t *testing.T) {
	var batches []transcript.Batch
	add := func(id string, f transcript.MessageLine) {
		batches = append(batches, transcript.Batch{Entries: []transcript.Entry{{ID: id, Body: f}}, Complete: true})
	}
	call := func(id, of, input string) {
		f := transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant, Of: of}
		add(id, f.WithContent(transcript.ToolCallBlock{ID: "a", Name: "f", Input: []byte(input)}))
	}
	result := func(id, text string) {
		f := transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser}
		add(id, f.WithContent(transcript.ToolResult("a", text).Content...))
	}
	answer := func(id string) {
		f := transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant}
		add(id, f.WithContent(transcript.TextBlock{Text: id}))
	}
	answer("x")
	call("x1", "x", `{"n":1}`)
	answer("y")
	call("y1", "y", `{"n":2}`)
	result("r1", "of y1")
	call("x2", "x", `{"n":3}`)
	result("r2", "of x1")
	result("r3", "of x2")
	h := foldAll(t, &rebuild.Options{}, batches).History()
	var texts []string
	for _, m := range h.Messages {
		for _, b := range m.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok {
				texts = append(texts, r.Text())
			}
		}
	}
	require.Equal(t, []string{"of x1", "of x2", "of y1"}, texts)
}
