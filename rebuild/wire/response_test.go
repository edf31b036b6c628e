package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// answers are bodies of the Messages API, with every kind of block it sends.
var answers = map[string]string{
	"text": `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-20260131","content":[{"type":"text","text":"Hello, 世界 \u2028 <&>"}],
		"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":5,"service_tier":"standard","cache_creation":{"ephemeral_5m_input_tokens":3}}}`,
	"calls": `{"id":"msg_2","type":"message","role":"assistant","model":"claude-x","content":[
		{"type":"thinking","thinking":"Let me see.","signature":"c2ln"},{"type":"redacted_thinking","data":"ZGF0YQ=="},
		{"type":"text","text":"Two calls."},
		{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a \"b\".go","line":1.0,"é":null}},
		{"type":"tool_use","id":"toolu_2","name":"list","input":{}}],
		"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`,
	"server tools": `{"id":"msg_3","type":"message","role":"assistant","model":"claude-x","content":[
		{"type":"text","text":"Searching."},
		{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"go"}},
		{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://go.dev","encrypted_content":"eHg="}]},
		{"type":"text","text":"Found it.","citations":[{"type":"web_search_result_location","url":"https://go.dev"},{"type":"web_search_result_location","url":"https://x"}]}],
		"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2,"server_tool_use":{"web_search_requests":1}}}`,
	"nothing": `{"id":"msg_4","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":"refusal","usage":{"input_tokens":1,"output_tokens":0}}`,
	"unknown": `{"id":"msg_5","type":"message","role":"assistant","model":"claude-x","content":[{"type":"hologram","z":[1,2],"a":{"b":1e3}}],"stop_reason":"new_reason"}`,
}

// lines writes a response as the lines of a transcript.
func lines(t testing.TB, resp *transcript.Response) string {
	t.Helper()
	n := 0
	entries, err := transcript.NewBatch(time.Unix(0, 0).UTC(), func() string { n++; return fmt.Sprint("e", n) }, resp)
	require.NoError(t, err)
	var sb strings.Builder
	for _, e := range entries {
		sb.Write(e.Line())
		sb.WriteByte('\n')
	}
	return sb.String()
}

func TestResponse(t *testing.T) {
	resp, err := anthropic.Format{}.Response([]byte(answers["text"]))
	require.NoError(t, err)
	require.Equal(t, "anthropic", resp.API)
	require.Equal(t, "claude-x-20260131", resp.Model)
	require.Equal(t, transcript.StopEndTurn, resp.StopReason)
	require.Equal(t, "msg_1", resp.RequestID)
	require.Equal(t, transcript.RoleAssistant, resp.Message.Role)
	require.Equal(t, "Hello, 世界 \u2028 <&>", resp.Message.Text())
	u := resp.Usage
	require.Equal(t, 12, u.Input)
	require.Equal(t, 5, u.Output)
	require.Equal(t, 4, u.CacheRead)
	require.Equal(t, 3, u.CacheWrite)
	require.Equal(t, 19, u.Prompt())
	require.Equal(t, `"standard"`, string(u.Extra["service_tier"]))
	require.Equal(t, `{"ephemeral_5m_input_tokens":3}`, string(u.Extra["cache_creation"]))
	resp, err = anthropic.Format{}.Response([]byte(answers["unknown"]))
	require.NoError(t, err)
	raw, ok := resp.Message.Content[0].(transcript.RawBlock)
	require.True(t, ok)
	require.Equal(t, `{"type":"hologram","z":[1,2],"a":{"b":1e3}}`, string(raw.JSON))
	require.EqualValues(t, "new_reason", resp.StopReason)
}

func TestAPIError(t *testing.T) {
	tests := []struct {
		status int
		body   string
		want   wire.APIError
		text   string
	}{
		{
			400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 tokens > 1 maximum"},"request_id":"req_1"}`,
			wire.APIError{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 2 tokens > 1 maximum", RequestID: "req_1"},
			"wire: status 400 invalid_request_error: prompt is too long: 2 tokens > 1 maximum (request req_1)",
		},
		{
			400, `{"error":{"message":"Too long.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
			wire.APIError{Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Param: "input", Message: "Too long."},
			"wire: status 400 invalid_request_error context_length_exceeded: Too long.",
		},
		{
			400, `{"error":{"code":400,"message":"Too long.","status":"INVALID_ARGUMENT"}}`,
			wire.APIError{Status: 400, Type: "INVALID_ARGUMENT", Message: "Too long."},
			"wire: status 400 INVALID_ARGUMENT: Too long.",
		},
		{
			0, `{"error":{"code":503,"message":"Later.","status":"UNAVAILABLE"}}`,
			wire.APIError{Status: 503, Type: "UNAVAILABLE", Message: "Later."},
			"wire: status 503 UNAVAILABLE: Later.",
		},
		{0, `{"error":{"code":7,"message":"Odd."}}`, wire.APIError{Message: "Odd."}, "wire: Odd."},
		{502, "<html>Bad Gateway</html>\n", wire.APIError{Status: 502, Message: "<html>Bad Gateway</html>"}, "wire: status 502: <html>Bad Gateway</html>"},
		{500, `{"error":"oops"}`, wire.APIError{Status: 500, Message: "oops"}, "wire: status 500: oops"},
		{403, `{"message":"denied"}`, wire.APIError{Status: 403, Message: "denied"}, "wire: status 403: denied"},
		{529, `{"a":1}`, wire.APIError{Status: 529, Message: `{"a":1}`}, `wire: status 529: {"a":1}`},
		{503, strings.Repeat("é", 1000), wire.APIError{Status: 503, Message: strings.Repeat("é", 150) + "..."}, "wire: status 503: " + strings.Repeat("é", 150) + "..."},
	}
	for _, tt := range tests {
		var e *wire.APIError
		if err := error(wire.NewAPIError(tt.status, []byte(tt.body))); !errors.As(err, &e) || *e != tt.want || err.Error() != tt.text {
			t.Errorf("%s: %+v, %q", tt.body, e, e.Error())
		}
	}
}

// An answer that is recorded and sent again goes out as it came in.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"text", "calls", "server tools"} {
		t.Run(name, func(t *testing.T) {
			resp, err := anthropic.Format{}.Response([]byte(answers[name]))
			require.NoError(t, err)
			var results []transcript.Item
			for _, c := range resp.Message.ToolCalls() {
				results = append(results, transcript.ToolResult(c.ID, "r"))
			}
			if results == nil {
				results = append(results, transcript.UserText("thanks"))
			}
			h := recorded(t, transcript.UserText("go"), resp, results)
			req := transcript.Request{Model: model, System: h.System, Messages: h.Messages}
			body, report := render(t, anthropic.Format{}, req)
			if len(report) > 0 {
				t.Errorf("report: %v", report)
			}
			if found := wiretest.Validate(decode(t, body)); len(found) > 0 {
				t.Errorf("violations: %v", found)
			}
			var sent struct{ Messages []struct{ Content any } }
			var came struct{ Content any }
			require.NoError(t, json.Unmarshal([]byte(body), &sent))
			require.NoError(t, json.Unmarshal([]byte(answers[name]), &came))
			require.Equal(t, fmt.Sprint(came.Content), fmt.Sprint(sent.Messages[1].Content))
		})
	}
}

// recorded appends items to a transcript, each slice and each single item as
// one batch, reads the lines back and folds them.
func recorded(t *testing.T, appends ...any) rebuild.History {
	t.Helper()
	fold := rebuild.New(nil)
	n := 0
	for _, items := range appends {
		list, ok := items.([]transcript.Item)
		if !ok {
			item, _ := items.(transcript.Item)
			list = []transcript.Item{item}
		}
		entries, err := transcript.NewBatch(time.Unix(0, 0).UTC(), func() string { n++; return fmt.Sprint("e", n) }, list...)
		require.NoError(t, err)
		for i, e := range entries {
			if entries[i], err = transcript.ParseEntry(e.Line()); err != nil {
				t.Fatal(err)
			}
		}
		require.NoError(t, fold.Add(transcript.Batch{Entries: entries, Complete: true}))
	}
	return fold.History()
}
