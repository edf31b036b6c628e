package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// turn is a user message, an answer that thinks and calls a tool, and its
// result.
func turn(t *testing.T, o transcript.Origin) []transcript.Message {
	return []transcript.Message{
		transcript.UserText("go"),
		message(t, `{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"n","input":{}}]}`, o),
		transcript.ToolResult("a", "r"),
	}
}

func TestRequestThinking(t *testing.T) {
	dated := native
	dated.Model = model + "-20260131"
	other := native
	other.Model = "claude-y"
	elsewhere := native
	elsewhere.API = "bedrock"
	enabled := anthropic.Format{Thinking: json.RawMessage(`{"type":"enabled","budget_tokens":1024}`)}
	adaptive := anthropic.Format{Thinking: json.RawMessage(`{"type":"adaptive"}`)}
	tests := []struct {
		name     string
		wire     anthropic.Format
		messages []transcript.Message
		kept     bool // the thinking block
		on       bool // the member "thinking"
		rules    string
	}{
		{"running turn", anthropic.Format{}, turn(t, native), true, false, ""},
		{"enabled", enabled, turn(t, native), true, true, ""},
		{"dated name", enabled, turn(t, dated), true, true, ""},
		{"steering", enabled, append(turn(t, native)[:2], message(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"faster"}]}`, transcript.Origin{})), true, true, ""},
		{"no origins", enabled, func() []transcript.Message {
			m := turn(t, native)
			m[1].Origins = nil
			return m
		}(), true, true, ""},
		{"other model", enabled, turn(t, other), false, false, "dropped-thinking thinking-off"},
		{"other model, adaptive", adaptive, turn(t, other), false, true, "dropped-thinking"},
		{"other API", anthropic.Format{}, turn(t, elsewhere), false, false, "dropped-thinking"},
		{"unknown origin", anthropic.Format{}, turn(t, transcript.Origin{}), false, false, "dropped-thinking"},
		{"earlier turn", enabled, append(turn(t, native), transcript.AssistantText("done"), transcript.UserText("and?")), false, true, "dropped-thinking"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, report := render(t, tt.wire, transcript.Request{Model: model, Messages: tt.messages})
			require.Equal(t, tt.kept, strings.Contains(body, `{"type":"thinking","thinking":"t","signature":"s"}`), body)
			require.Equal(t, tt.on, strings.Contains(body, `"thinking":{`), body)
			if got := rules(report); got != tt.rules {
				t.Errorf("report = %v, want %q", report, tt.rules)
			}
			if found := wiretest.Validate(decode(t, body)); len(found) > 0 {
				t.Errorf("violations: %v", found)
			}
		})
	}
}

// At the end of a request reasoning stays only if thinking is on, and it never
// ends a message.
func TestRequestThinkingPrefill(t *testing.T) {
	adaptive := anthropic.Format{Thinking: json.RawMessage(`{"type":"adaptive"}`)}
	const thinking, text = `{"type":"thinking","thinking":"t","signature":"s"}`, `{"type":"text","text":"x"}`
	tests := []struct {
		wire          anthropic.Format
		content, want string
	}{
		{adaptive, thinking + "," + text, thinking + "," + text},
		{anthropic.Format{}, thinking + "," + text, text},
		{anthropic.Format{Thinking: json.RawMessage(`{"type":"disabled"}`)}, thinking + "," + text, text},
		{adaptive, thinking + "," + text + "," + thinking + "," + thinking, thinking + "," + text},
	}
	for _, tt := range tests {
		answer := message(t, `{"role":"assistant","content":[`+tt.content+`]}`, native)
		body, _ := render(t, tt.wire, transcript.Request{Model: model, Messages: []transcript.Message{transcript.UserText("go"), answer}})
		if !strings.Contains(body, `"assistant","content":[`+tt.want+"]") {
			t.Errorf("%s became %s", tt.content, body)
		}
	}
}

func TestModelAlias(t *testing.T) {
	tests := []struct {
		asked, answered string
		same            bool
	}{
		{"claude-x", "claude-x-20260131", true},
		{"claude-x-latest", "claude-x-20260131", true},
		{"claude-x@20260131", "claude-x", true},
		{"claude-x-20260131", "claude-x-20251231", false},
		{"claude-x", "claude-x-mini", false},
		{"claude-x", "claude-x-2026013a", false},
		{"claude-x", "claude-x-2026-01-31", true},
		{"claude-x", "claude-x-2026-01_31", false},
		{"", "", true},
		{"claude-x", "", false},
	}
	for _, tt := range tests {
		o := transcript.Origin{API: "anthropic", Model: tt.answered}
		body, _ := render(t, anthropic.Format{}, transcript.Request{Model: tt.asked, Messages: turn(t, o)})
		if got := strings.Contains(body, `"signature"`); got != tt.same {
			t.Errorf("asked %q, answered %q: same = %v", tt.asked, tt.answered, got)
		}
	}
}

// The reasoning of answers with a recorded request goes back whole, in order,
// to every model of the API, from all turns.
func TestBoundThinking(t *testing.T) {
	made := &transcript.Answer{Entry: "a", Made: transcript.Made{After: "u", PromptHash: rebuild.PromptHash("", nil)}, Intact: true}
	o := transcript.Origin{Entry: "a", Batch: 2, API: "anthropic", Model: "claude-fable-5-2", Answer: made}
	think := `{"type":"thinking","thinking":"","signature":"s"}`
	call := `{"type":"tool_use","id":"%s","name":"n","input":{}}`
	content := `{"type":"text","text":"x"},` + think + `,` + fmt.Sprintf(call, "a") + `,` + think + `,` + fmt.Sprintf(call, "b")
	messages := []transcript.Message{
		transcript.UserText("go"),
		message(t, `{"role":"assistant","content":[`+content+`]}`, o),
		{Role: transcript.RoleUser, Content: append(transcript.ToolResult("a", "r").Content, transcript.ToolResult("b", "r").Content...)},
		transcript.AssistantText("done"),
		transcript.UserText("and?"),
	}
	for _, w := range []anthropic.Format{{}, {Thinking: json.RawMessage(`{"type":"adaptive"}`)}} {
		body, report := render(t, w, transcript.Request{Model: "claude-opus-5-5", Messages: messages})
		require.Contains(t, body, content)
		require.Empty(t, report)
	}
	body, report := render(t, anthropic.Format{Thinking: json.RawMessage(`{"type":"disabled"}`)}, transcript.Request{Model: "claude-opus-5-5", Messages: messages})
	require.NotContains(t, body, "signature")
	require.Len(t, report, 2)
	body, _ = render(t, anthropic.Format{}, transcript.Request{Model: "claude-opus-5-5", System: "another prompt", Messages: messages})
	require.NotContains(t, body, "signature")
	made.Intact = false
	body, _ = render(t, anthropic.Format{}, transcript.Request{Model: "claude-opus-5-5", Messages: messages})
	require.NotContains(t, body, "signature")
}

// Reasoning of answers without a recorded request never goes to a model that
// would refuse it.
func TestUnboundThinking(t *testing.T) {
	for model, kept := range map[string]bool{
		"claude-3-7-sonnet-20250219": true, "claude-opus-4-8": true, "claude-sonnet-5-20260401": true, "claude-fable-5": true,
		"us.anthropic.claude-opus-5-v1:0": true, "some-imitator": true,
		"claude-fable-5-1": false, "claude-opus-5-5": false, "claude-haiku-5-5-20260915": false, "claude-opus-5-5@20260915": false, "claude-opus-6": false,
		"us.anthropic.claude-sonnet-5-5-v1:0": false,
	} {
		o := native
		o.Model = model
		body, _ := render(t, anthropic.Format{}, transcript.Request{Model: model, Messages: turn(t, o)})
		require.Equal(t, kept, strings.Contains(body, "signature"), model)
	}
}
