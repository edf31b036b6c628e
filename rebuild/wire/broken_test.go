package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// Messages that a caller put together badly: rendering does not repair them, but it
// neither fails nor adds to them.
func TestBrokenMessages(t *testing.T) {
	user := func(content string) transcript.Message {
		return message(t, `{"role":"user","content":`+content+`}`, transcript.Origin{})
	}
	empty := transcript.Message{Role: transcript.RoleAssistant}
	text := user(`"a"`)
	call := user(`[{"type":"tool_use","id":"c","name":"n","input":{}}]`)
	computer := message(t, `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"computer","input":{"action":{}},"ext":{"type":"computer_call","item":{"id":"cu"}}}]}`, responsesOrigin("e", 1))
	unsaid := message(t, `{"role":"assistant","content":[{"type":"text","":""},{"type":"text","text":"b"}]}`, native)
	for name, tc := range map[string]struct {
		format interface {
			Request(req transcript.Request) ([]byte, rebuild.Report, error)
		}
		model    string
		messages []transcript.Message
		want     string
	}{
		"users in a row, Bedrock": {bedrock.Format{}, "gpt-x", []transcript.Message{text, text}, `[{"role":"user","content":[{"text":"a"},{"text":"a"}]}]`},
		"empty answer, Bedrock":   {bedrock.Format{}, "gpt-x", []transcript.Message{text, empty, text}, `[{"role":"user","content":[{"text":"a"},{"text":"a"}]}]`},
		"empty answer, Chat": {
			openaichat.Format{},
			"gpt-x",
			[]transcript.Message{text, empty, text},
			`[{"role":"user","content":"a\n\na"}]`,
		},
		"call of a user, Chat":      {openaichat.Format{}, "gpt-x", []transcript.Message{call}, `[{"role":"user","content":"[tool_use left out]"}]`},
		"call of a user, Responses": {openairesponses.Format{}, "gpt-x", []transcript.Message{call}, `[{"type":"message","role":"user","content":"[tool_use left out]"}]`},
		"call of a user, Gemini":    {gemini.Format{}, "gpt-x", []transcript.Message{call}, `[{"role":"user","parts":[{"text":"[tool_use left out]"}]}]`},
		"no screen in a late result": {
			openairesponses.Format{},
			"gpt-x",
			[]transcript.Message{text, computer, text, transcript.ToolResult("c", "done")},
			`{"type":"function_call_output","call_id":"c","output":"done"}]`,
		},
		"a text without its text": {
			anthropic.Format{Prefill: true},
			model,
			[]transcript.Message{text, unsaid},
			`{"role":"assistant","content":[{"type":"text","text":"b"}]}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			body, _, err := tc.format.Request(transcript.Request{Model: tc.model, Messages: tc.messages})
			require.NoError(t, err)
			require.Contains(t, string(body), tc.want)
		})
	}
}

// However much reasoning an answer has, each piece is judged once.
func TestMuchReasoning(t *testing.T) {
	var said []string
	for i := range 3_000 {
		said = append(said, fmt.Sprintf(`{"type":"thinking","thinking":"t","ext":{"item":{"id":"rs_%d","type":"reasoning","summary":[],"encrypted_content":"e"}}}`, i))
	}
	said = append(said, `{"type":"text","text":"b","ext":{"item":{"id":"msg_1"}}}`)
	m := message(t, `{"role":"assistant","content":[`+strings.Join(said, ",")+`]}`, responsesOrigin("e", 1))
	start := time.Now()
	body, report, err := openairesponses.Format{Prefill: true}.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{transcript.UserText("a"), m}})
	took := time.Since(start)
	var got struct{ Input []json.RawMessage }
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &got))
	if len(got.Input) != len(said)+1 || len(report) > 0 || took > 5*time.Second {
		t.Errorf("%d items after %v, report %v", len(got.Input), took, report)
	}
}
