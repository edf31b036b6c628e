package guardtest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
)

// body returns a request with some members and otherwise good ones.
func body(members string) string {
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+members+"}"), &given); err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		"model": `"m"`, "max_tokens": "100", "messages": `[{"role":"user","content":"Hi"}]`,
	} {
		if _, ok := given[name]; !ok {
			members = strings.TrimSuffix(`"`+name+`":`+value+`,`+members, ",")
		}
	}
	return "{" + members + "}"
}

func TestInvalid(t *testing.T) {
	const (
		calls   = `{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
		results = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}`
		marked  = `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
		tool    = `{"name":"f","input_schema":{"type":"object"}}`
		image   = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`
		enabled = `"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":3000`
	)
	large := image + "iVBORw0KGgo" + strings.Repeat("A", 5<<20+4-11) + `"}}`
	tests := []struct{ name, body, want string }{
		{"image", body(`"messages":[{"role":"user","content":[` + large + `]}]`), "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes"},
		{
			"image of a result", body(`"messages":[` + calls + `,` + strings.Replace(results, `"x"`, "["+large+"]", 1) + `]`),
			"messages.2.content.0.tool_result.content.0.image.source.base64: image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes",
		},
		{"empty", "", "The request body is not valid JSON"},
		{"not JSON", "{", "The request body is not valid JSON"},
		{"not UTF-8", body(`"system":"` + "\xff" + `"`), "The request body is not valid JSON"},
		{"high half", body(`"system":"a\\\ud83dx"`), "The request body is not valid JSON: no low surrogate in string: line 1 column "},
		{"low half", body(`"system":"a\ude00"`), "The request body is not valid JSON: invalid high surrogate in string: line 1 column "},
		{"array", "[]", "Input should be a valid dictionary"},
		{"null", "null", "Input should be a valid dictionary"},
		{"no model", `{"max_tokens":1,"messages":[]}`, "model: Field required"},
		{"model", body(`"model":7`), "model: Input should be a valid string"},
		{"no max_tokens", `{"model":"m","messages":[]}`, "max_tokens: Field required"},
		{"max_tokens", body(`"max_tokens":"9"`), "max_tokens: Input should be a valid integer"},
		{"max_tokens 0", body(`"max_tokens":0`), "max_tokens: must be greater than or equal to 1"},
		{"no messages", `{"model":"m","max_tokens":1}`, "messages: Field required"},
		{"messages", body(`"messages":{}`), "messages: Input should be a valid list"},
		{"no message", body(`"messages":[]`), "messages: at least one message is required"},
		{"message", body(`"messages":["Hi"]`), "messages.0: Input should be a valid dictionary"},
		{"no role", body(`"messages":[{"content":"Hi"}]`), "messages.0.role: Field required"},
		{"no content", body(`"messages":[{"role":"user"}]`), "messages.0.content: Field required"},
		{"content", body(`"messages":[{"role":"user","content":7}]`), "messages.0.content: Input should be a valid list"},
		{"member of a message", body(`"messages":[{"role":"user","content":"Hi","id":"1"}]`), "messages.0.id: Extra inputs are not permitted"},
		{"member", body(`"entries":[]`), "entries: Extra inputs are not permitted"},
		{"stream", body(`"stream":"yes"`), "stream: Input should be a valid boolean"},
		{"system", body(`"system":{}`), "system: Input should be a valid list"},
		{"system block", body(`"system":[{"type":"image"}]`), "system.0: Input should be a text block"},
		{"blank system block", body(`"system":[{"type":"text","text":" "}]`), "system: text content blocks must be non-empty"},
		{"tools", body(`"tools":{}`), "tools: Input should be a valid list"},
		{"tool", body(`"tools":["f"]`), "tools.0: Input should be a valid dictionary"},
		{"tool without a name", body(`"tools":[{"input_schema":{"type":"object"}}]`), "tools.0.custom.name: Field required"},
		{"tool without a schema", body(`"tools":[{"name":"f"}]`), "tools.0.custom.input_schema: Field required"},
		{"tool twice", body(`"tools":[` + tool + `,` + tool + `]`), "tools: Tool names must be unique."},
		{"role", body(`"messages":[{"role":"tool","content":"Hi"}]`), "messages.0.role: Input should be 'user' or 'assistant'"},
		{"prefill", body(`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hm"}]`), "This model does not support assistant message prefill. The conversation must end with a user message."},
		{
			"call without a result", body(`"messages":[` + calls + `,{"role":"user","content":"?"}]`),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
		},
		{
			"result without a call", body(`"messages":[` + results + `]`),
			"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
		},
		{"five marks", body(`"messages":[{"role":"user","content":[` + strings.Repeat(marked+",", 4) + marked + `]}]`), "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{
			"five marks in all", body(`"system":[` + marked + `],"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],` +
				`"messages":[` + calls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[` + marked + `],"cache_control":{"type":"ephemeral"}},` + marked + `]}]`),
			"A maximum of 4 blocks with cache_control may be provided. Found 5.",
		},
		{"thinking", body(`"thinking":true`), "thinking: Input should be a valid dictionary"},
		{"kind of thinking", body(`"thinking":{"type":"hard"}`), "thinking: Input tag 'hard' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'"},
		{"budget", body(`"thinking":{"type":"enabled","budget_tokens":10}`), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
		{"budget over max_tokens", body(`"thinking":{"type":"enabled","budget_tokens":2000}`), "`max_tokens` must be greater than `thinking.budget_tokens`."},
		{
			"no reasoning to go on from", body(enabled + `,"messages":[` + calls + `,` + results + `]`),
			"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
		},
	}
	if testing.Short() {
		tests = tests[2:] // images of 5 MB
	}
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		m := &guardtest.Model{Answer: func(r guardtest.Request) guardtest.Answer {
			t.Errorf("the model was asked: %s", r.Body)
			return guardtest.Answer{}
		}}
		c := start(m)
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				e := c.refused(t, tt.body)
				require.Equal(t, 400, e.Status)
				require.Equal(t, "invalid_request_error", e.Type)
				if !strings.HasPrefix(e.Message, tt.want) || !strings.HasSuffix(tt.want, "column ") && e.Message != tt.want {
					t.Errorf("got  %s\nwant %s", e.Message, tt.want)
				}
				invalid := m.Invalid()
				require.Equal(t, i+1, len(invalid))
				last := invalid[i]
				require.Equal(t, e.Message, last.Refused)
				require.Equal(t, tt.body, string(last.Body))
				require.Equal(t, i+1, last.N)
				require.Equal(t, guardtest.Invalid, last.Outcome)
			})
		}
		require.Equal(t, guardtest.Stats{Requests: len(tests), Invalid: len(tests)}, m.Stats())
		require.Equal(t, 0, m.Stats().Overflows)
	})
}

// Requests that the service accepts and a narrow reader would refuse.
func TestValid(t *testing.T) {
	tests := []struct{ name, body string }{
		{"least", body("")},
		{"sampling", body(`"temperature":1,"top_k":5,"top_p":0.5,"stop_sequences":["x"],"metadata":{"user_id":"u"},"tool_choice":{"type":"auto"}`)},
		{"system blocks", body(`"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]`)},
		{"tool of the provider", body(`"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"custom","name":"f","input_schema":{"type":"object"}}]`)},
		{"pairs and escapes", body(`"system":"\ud83d\ude00 \\ud83d \u00e9"`)},
		{"thinking", body(`"thinking":{"type":"adaptive"}`)},
		{"thinking with a budget", body(`"thinking":{"type":"enabled","budget_tokens":1024},"max_tokens":1025`)},
		{"calls without tools", body(`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := new(guardtest.Model)
			status, answer, err := inProcess(m).post(t, tt.body)
			require.NoError(t, err)
			require.Equal(t, 200, status, string(answer))
			require.Equal(t, 0, len(m.Invalid()))
		})
	}
}

func TestVersionHeader(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		m := new(guardtest.Model)
		c := start(m)
		resp, err := c.http.Post(c.url+"/v1/messages", "application/json", strings.NewReader(body("")))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.Equal(t, "anthropic-version: header is required", m.Invalid()[0].Refused)
	})
}

func TestTooManyBytes(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		m := &guardtest.Model{MaxBody: 200}
		c := start(m)
		e := c.refused(t, body(`"system":"`+strings.Repeat("x", 200)+`"`))
		require.Equal(t, &wire.APIError{Status: 413, Type: "request_too_large", Message: "Request exceeds the maximum size"}, e)
		got := m.Requests()
		require.Equal(t, 1, len(got))
		require.Equal(t, guardtest.Overflow, got[0].Outcome)
		require.Equal(t, 413, got[0].Status)
		require.Equal(t, 0, len(got[0].Body))
		require.Equal(t, guardtest.Stats{Requests: 1, Overflows: 1}, m.Stats())
	})
}
