package wire_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// Each golden file holds a request, as JSON with the origins of blocks, and its
// rendering. See testdata/README.md.
func TestRequestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/anthropic/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			comment, rest, _ := strings.Cut(string(data), "-- request --\n")
			input, want, _ := strings.Cut(rest, "-- body --\n")
			req := goldenRequest(t, input)
			body, report := render(t, anthropic.Format{}, req)
			var sb strings.Builder
			sb.WriteString(strings.ReplaceAll(body, `{"role":`, "\n"+`{"role":`) + "\n-- report --\n")
			for _, r := range report {
				sb.WriteString(r.String() + "\n")
			}
			sb.WriteString("-- violations --\n")
			for _, v := range wiretest.Validate(decode(t, body)) {
				sb.WriteString(v.String() + "\n")
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(comment+"-- request --\n"+input+"-- body --\n"+sb.String()), 0o644))
				return
			}
			require.Equal(t, want, sb.String())
		})
	}
}

// goldenRequest reads one message per line, each after the entry, API and model
// of its blocks: "e1 anthropic claude-x {...}", or "- {...}" without origins.
// "+ {...}", after its origin, is one more block of the message before, as in a
// merged message.
func goldenRequest(t *testing.T, input string) transcript.Request {
	t.Helper()
	req := transcript.Request{Model: model}
	for line := range strings.Lines(input) {
		head, text, ok := strings.Cut(line, "{")
		if !ok {
			continue
		}
		text = "{" + text
		fields := strings.Fields(head)
		var o transcript.Origin
		origin := func(f []string) {
			o = transcript.Origin{Entry: f[0]}
			if len(f) > 2 {
				o.API, o.Model = f[1], f[2]
			}
		}
		switch fields[0] {
		case "+":
			origin(fields[1:])
			last := &req.Messages[len(req.Messages)-1]
			last.Content = append(last.Content, block(t, text))
			last.Origins = append(last.Origins, o)
		case "-":
			m := message(t, text, o)
			m.Origins = nil
			req.Messages = append(req.Messages, m)
		default:
			origin(fields)
			req.Messages = append(req.Messages, message(t, text, o))
		}
	}
	return req
}

func TestRequestEnvelope(t *testing.T) {
	user := []transcript.Message{transcript.UserText("hi <&> \u2028")}
	tests := []struct {
		name string
		wire anthropic.Format
		req  transcript.Request
		want string
	}{
		{"zero", anthropic.Format{}, transcript.Request{}, `{"max_tokens":8192,"messages":[]}`},
		{
			"plain",
			anthropic.Format{},
			transcript.Request{Model: "m", System: "s", Messages: user, MaxOutput: 5},
			`{"model":"m","max_tokens":5,"system":"s","messages":[{"role":"user","content":"hi <&> \u2028"}]}`,
		},
		{"blank system", anthropic.Format{}, transcript.Request{System: " \n"}, `{"max_tokens":8192,"messages":[]}`},
		{
			"tools",
			anthropic.Format{Stream: true},
			transcript.Request{Tools: []transcript.Tool{
				{Name: "a", Description: "d", InputSchema: json.RawMessage(`{"type": "object", "b": 1.0, "a": 2}`)}, {Name: "b"},
			}},
			`{"max_tokens":8192,"stream":true,"tools":[{"name":"a","description":"d","input_schema":{"type": "object", "b": 1.0, "a": 2}},{"name":"b","input_schema":{"type":"object"}}],"messages":[]}`,
		},
		{
			"thinking and params",
			anthropic.Format{
				Thinking: json.RawMessage(`{"type":"enabled","budget_tokens":1024}`),
				Params:   map[string]json.RawMessage{"tool_choice": json.RawMessage(`{"type":"auto"}`), "temperature": json.RawMessage(`1`)},
			},
			transcript.Request{},
			`{"max_tokens":8192,"thinking":{"type":"enabled","budget_tokens":1024},"temperature":1,"tool_choice":{"type":"auto"},"messages":[]}`,
		},
		{
			"system and tools of one's own",
			anthropic.Format{Params: map[string]json.RawMessage{
				"system": json.RawMessage(`[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]`),
				"tools":  json.RawMessage(`[{"type":"web_search_20250305","name":"web_search"}]`),
			}},
			transcript.Request{System: "s", Tools: []transcript.Tool{{Name: "a"}}},
			`{"max_tokens":8192,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := render(t, tt.wire, tt.req)
			require.Equal(t, tt.want, got)
		})
	}
}

// A paused answer goes back unchanged.
func TestRequestPaused(t *testing.T) {
	const answer = `{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}]}`
	req := transcript.Request{Model: model, Messages: []transcript.Message{transcript.UserText("go"), message(t, answer, native)}}
	body, report := render(t, anthropic.Format{}, req)
	if !strings.Contains(body, answer) || len(report) > 0 {
		t.Errorf("body %s, report %v", body, report)
	}
	if found := wiretest.Validate(decode(t, body)); len(found) > 0 {
		t.Errorf("violations: %v", found)
	}
	req.Messages = append(req.Messages, transcript.UserText("stop that"))
	body, report = render(t, anthropic.Format{}, req)
	require.NotContains(t, body, "srvtoolu")
	require.Equal(t, "replaced-block dropped-thinking", rules(report))
}

func TestRequestMarks(t *testing.T) {
	var blocks []string
	for i := range 6 {
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":"%d","cache_control":{"type":"ephemeral"}}`, i))
	}
	user := message(t, `{"role":"user","content":[`+strings.Join(blocks, ",")+`]}`, transcript.Origin{})
	tests := []struct {
		name   string
		params map[string]json.RawMessage
		want   int
	}{
		{"four", nil, 4},
		{"one in the system prompt", map[string]json.RawMessage{"system": json.RawMessage(`[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]`)}, 3},
		{"automatic", map[string]json.RawMessage{"cache_control": json.RawMessage(`{"type":"ephemeral"}`)}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, report := render(t, anthropic.Format{Params: tt.params}, transcript.Request{Messages: []transcript.Message{user}})
			_, messages, _ := strings.Cut(body, `"messages"`)
			if got := strings.Count(messages, "ephemeral"); got != tt.want || len(report) != 6-tt.want {
				t.Errorf("%d marks, report %v", got, report)
			}
			require.Contains(t, body, `"text":"5","cache_control"`)
			require.NotContains(t, body, `"text":"1","cache_control"`)
		})
	}
	require.Equal(t, 1, len(user.Content[0].(transcript.TextBlock).Extra), "the caller's block was changed")
}

// Values in Go that JSON cannot express.
func TestRequestOddValues(t *testing.T) {
	req := transcript.Request{Messages: []transcript.Message{
		{Role: transcript.RoleUser, Content: []transcript.Block{
			nil,
			transcript.RawBlock{},
			transcript.RawBlock{JSON: json.RawMessage("{")},
			transcript.TextBlock{Text: "a\xffb"},
			transcript.ToolResultBlock{CallID: "x", Content: []transcript.Block{nil, transcript.ToolResultBlock{}}},
		}},
		{Role: transcript.RoleAssistant, Content: []transcript.Block{nil, transcript.RawBlock{}, transcript.ToolCallBlock{ID: "a"}}, Origins: []transcript.Origin{{}}},
		{Role: transcript.RoleUser},
	}}
	render(t, anthropic.Format{}, req)
}

// Half a character in a call's input, left by a cut answer, would make every
// later request of the session invalid.
func TestHalfSurrogate(t *testing.T) {
	m := message(t, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{"text":"\ud83d","whole":"\ud83d\ude00"}}]}`, native)
	body, report, err := anthropic.Format{}.Request(transcript.Request{Messages: []transcript.Message{
		transcript.UserText("go"), m, transcript.ToolResult("a", "ok"),
	}})
	require.NoError(t, err)
	require.Contains(t, string(body), `{"text":"\ufffd","whole":"\ud83d\ude00"}`)
	require.Len(t, report, 1)
	require.Equal(t, rebuild.Rule("half-surrogate"), report[0].Rule)
}

// An error may have only texts; a search result becomes one.
func TestErrorWithImage(t *testing.T) {
	m := message(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]}]}]}`, transcript.Origin{})
	call := message(t, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]}`, native)
	req := transcript.Request{Messages: []transcript.Message{transcript.UserText("go"), call, m}}
	v := wiretest.Validate(req)
	require.NotEmpty(t, v)
	require.Equal(t, "error-content", v[0].Rule)
	body, report, err := anthropic.Format{}.Request(req)
	require.NoError(t, err)
	require.Contains(t, string(body), `[{"type":"text","text":"no"},{"type":"text","text":"[image left out: in an error]"},{"type":"text","text":"[search_result]\nsource: s\ntitle: t\ntext: found"}]`)
	require.Len(t, report, 2)
	require.Equal(t, rebuild.Rule("replaced-block"), report[0].Rule)
	require.Equal(t, rebuild.Rule("replaced-block"), report[1].Rule)
}
