package guardtest_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/transcript"
)

// A model that binds reasoning takes it back where it was made; elsewhere it
// refuses it.
func TestBind(t *testing.T) {
	eachWay(t, []speaker{{"anthropic", "claude-opus-5-5", askClaude}, bedrockSpeaker}, func(t *testing.T, s speaker, stream bool) {
		m := &guardtest.Model{Bind: true, Answer: guardtest.Always(guardtest.Answer{Blocks: []transcript.Block{
			transcript.TextBlock{Text: "So:"},
			transcript.ThinkingBlock{Thinking: "hm"},
			transcript.ToolCallBlock{ID: "a", Name: "look", Input: json.RawMessage(`{"b":1,"a":[2,"x"]}`)},
		}})}
		req := transcript.Request{Model: s.model, System: "Be brief.", MaxOutput: 4000, Messages: []transcript.Message{transcript.UserText("Look.")}}
		req.Tools = []transcript.Tool{{Name: "look", InputSchema: json.RawMessage(`{"type":"object"}`)}}
		ask := func() (*transcript.Response, error) { return s.ask(t.Context(), inProcess(m), req, stream) }
		resp, err := ask()
		require.NoError(t, err)
		req.Messages = append(req.Messages, resp.Message, transcript.ToolResult("a", "r"))
		_, err = ask()
		require.NoError(t, err)

		req.Messages[0] = transcript.UserText("Look there.")
		_, err = ask()
		e := apiError(t, err)
		require.Equal(t, 400, e.Status)
		require.Contains(t, e.Message, "messages.1.content.1: Invalid `signature` in `thinking` block. The block is bound to a different conversation.")
		require.Equal(t, guardtest.Invalid, m.Requests()[2].Outcome)
	})
}
