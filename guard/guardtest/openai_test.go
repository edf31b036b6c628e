package guardtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// An openAIFormat is one of OpenAI's APIs.
type openAIFormat struct {
	name, path string
	request    func(stream bool, req transcript.Request) ([]byte, rebuild.Report, error)
	response   func([]byte) (*transcript.Response, error)
	stream     func() wire.Stream
}

var openAIFormats = []openAIFormat{
	{
		"chat", "/v1/chat/completions",
		func(stream bool, req transcript.Request) ([]byte, rebuild.Report, error) {
			return openaichat.Format{Stream: stream, Reasoning: true}.Request(req)
		},
		openaichat.Format{}.Response,
		openaichat.Format{}.NewStream,
	},
	{
		"responses", "/v1/responses",
		func(stream bool, req transcript.Request) ([]byte, rebuild.Report, error) {
			return openairesponses.Format{Stream: stream}.Request(req)
		},
		openairesponses.Format{}.Response,
		openairesponses.Format{}.NewStream,
	},
}

func eachOpenAI(t *testing.T, f func(t *testing.T, format openAIFormat)) {
	for _, format := range openAIFormats {
		t.Run(format.name, func(t *testing.T) { f(t, format) })
	}
}

// ask sends a request and returns the received part of the answer.
func (f openAIFormat) ask(ctx context.Context, c client, stream bool, req transcript.Request) (*transcript.Response, error) {
	body, _, err := f.request(stream, req)
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, f.path, body, stream, f.stream(), f.response)
}

// refusal posts a body that is to be refused.
func (f openAIFormat) refusal(t *testing.T, c client, body string) *wire.APIError {
	t.Helper()
	resp, err := c.send(t.Context(), f.path, []byte(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusOK {
		t.Fatalf("accepted, answered %s", answer)
	}
	return wire.NewAPIError(resp.StatusCode, answer)
}

// A conversation with calls, reasoning and a refusal goes over both APIs, whole
// and streamed, and no request of it is refused.
func TestOpenAIConversation(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
			for _, stream := range []bool{false, true} {
				m := &guardtest.Model{Name: "model-1", Answer: guardtest.Script(
					guardtest.Answer{Blocks: []transcript.Block{
						transcript.ThinkingBlock{Thinking: "Both of them.", Signature: "c2ln"},
						transcript.TextBlock{Text: "Let me look <here>."},
						transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: json.RawMessage(`{"path": "a b c d e f g h i j k l m n", "n": 1.0}`)},
						transcript.ToolCallBlock{ID: "call_2", Name: "list", Input: json.RawMessage(`{}`)},
					}},
					guardtest.Answer{Text: "I will not say what I saw.", Stop: transcript.StopRefusal},
					guardtest.Answer{Text: "And then the", Stop: transcript.StopMaxTokens},
					guardtest.Say("Good bye."),
				)}
				c := start(m)
				req := hello()
				for n, want := range []struct {
					text  string
					stop  transcript.StopReason
					calls int
				}{
					{"Let me look <here>.", "tool_use", 2},
					{"I will not say what I saw.", "refusal", 0},
					{"And then the", "max_tokens", 0},
					{"Good bye.", "end_turn", 0},
				} {
					resp, err := f.ask(t.Context(), c, stream, req)
					require.NoError(t, err)
					require.Equal(t, want.text, resp.Message.Text())
					require.Equal(t, want.stop, resp.StopReason)
					require.Equal(t, "model-1", resp.Model)
					require.Equal(t, m.Requests()[n].Tokens, resp.Usage.Prompt())
					require.Equal(t, want.calls, len(resp.Message.ToolCalls()))
					next := transcript.UserText("Go on.")
					for i, call := range resp.Message.ToolCalls() {
						result := transcript.ToolResult(call.ID, fmt.Sprint("result ", i))
						if i == 0 {
							next = result
							require.Equal(t, `{"path": "a b c d e f g h i j k l m n", "n": 1.0}`, string(call.Input))
						} else {
							next.Content = append(next.Content, result.Content...)
						}
					}
					req.Messages = append(req.Messages, resp.Message, next)
				}
				require.Equal(t, 0, len(m.Invalid()))
				results := m.Requests()[1].Results()
				require.Equal(t, 2, len(results))
				require.Equal(t, "result 1", results[1].Text())
				require.Equal(t, "Go on.", m.Requests()[2].UserText())
			}
		})
	})
}

func TestOpenAIInvalid(t *testing.T) {
	const (
		hi    = `{"role":"user","content":"Hi"}`
		calls = hi + `,{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		item  = `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`
		out   = `{"type":"function_call_output","call_id":"a","output":""}`
		rs    = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`
	)
	result := func(id string) string { return `,{"role":"tool","tool_call_id":"` + id + `","content":""}` }
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	items := func(items ...string) string {
		return `{"model":"m","store":false,"input":[` + strings.Join(items, ",") + `]}`
	}
	tests := []struct{ path, name, body, want string }{
		{"chat", "not JSON", "{", "We could not parse the JSON body of your request."},
		{"chat", "half a character", chat(`{"role":"user","content":"\ud83d"}`), "We could not parse the JSON body of your request."},
		{"chat", "no model", `{"messages":[` + hi + `]}`, "you must provide a model parameter"},
		{"chat", "no messages", `{"model":"m"}`, "Missing required parameter: 'messages'."},
		{"chat", "empty", chat(""), "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."},
		{"chat", "role", chat(`{"role":"model","content":"Hi"}`), "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."},
		{"chat", "member", chat(`{"role":"user","content":"Hi","ext":1}`), "Additional properties are not allowed ('ext' was unexpected) - 'messages.0'"},
		{"chat", "null", chat(`{"role":"user","content":null}`), "Invalid value for 'content': expected a string, got null."},
		{"chat", "no content", chat(hi + `,{"role":"assistant"}`), "Invalid value for 'content': expected a string, got null."},
		{"chat", "empty text", chat(`{"role":"user","content":""}`), "Invalid 'messages[0].content': empty string."},
		{"chat", "no parts", chat(`{"role":"user","content":[]}`), "Invalid 'messages[0].content': empty array."},
		{"chat", "part", chat(`{"role":"user","content":[{"type":"image"}]}`), "Invalid value: 'image'. Supported values are: 'text', 'image_url', 'input_audio', 'file'."},
		{"chat", "image URL", chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"a.png"}}]}`), "Invalid 'messages[0].content[0].image_url.url'. Expected a valid URL"},
		{"chat", "file", chat(`{"role":"user","content":[{"type":"file","file":{"file_data":"x"}}]}`), "Invalid 'messages[0].content[0].file'."},
		{"chat", "image in a result", chat(calls + `,{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"https://x.example"}}]}` + result("b")), "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL."},
		{"chat", "no results", chat(calls), "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: a, b"},
		{"chat", "one result", chat(calls + result("a") + "," + hi + result("b")), "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: b"},
		{"chat", "orphan", chat(hi + result("a")), "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."}, //nolint:misspell // as the provider spells it
		{"chat", "second result", chat(calls + result("a") + result("b") + result("a")), "Duplicate value for 'tool_call_id' of 'a' in message[4]"},
		{"chat", "same ID", chat(calls + result("a") + result("b") + "," + calls + result("a") + result("b")), "Duplicate value for 'tool_call_id' of 'a' in message[5]"},
		{"chat", "long ID", chat(strings.ReplaceAll(calls+result("a")+result("b"), `"a"`, `"`+strings.Repeat("a", 41)+`"`)), "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 41 instead."},
		{"chat", "name", chat(strings.ReplaceAll(calls+result("a")+result("b"), `"f"`, `"f g"`)), "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."},
		{"chat", "arguments", chat(strings.ReplaceAll(calls+result("a")+result("b"), `"{}"`, `{}`)), "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead."},
		{"chat", "arguments that are cut", chat(strings.ReplaceAll(calls+result("a")+result("b"), `"{}"`, `"{"`)), "Invalid 'messages[1].tool_calls[0].function.arguments': the arguments are not a JSON object."},
		{"chat", "129 calls", chat(hi + `,{"role":"assistant","tool_calls":[` + strings.Repeat(`{},`, 128) + `{}]}`), "Invalid 'messages[1].tool_calls': array too long. Expected an array with maximum length 128, but got an array with length 129 instead."},
		{
			"chat", "without reasoning", chat(strings.Replace(calls, `"content":null`, `"reasoning_content":"x","content":null`, 1) + result("a") + result("b") +
				`,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}` + result("c")),
			"Missing `reasoning_content` field in the assistant message at message index 4",
		},
		{"chat", "tools", `{"model":"m","messages":[` + hi + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"string"}}}]}`, `Invalid schema for function 'f': schema must be a JSON Schema of 'type: "object"'`},
		{"chat", "unknown", `{"model":"m","messages":[` + hi + `],"max_output":1}`, "Unrecognized request argument supplied: max_output"},
		{"chat", "both limits", `{"model":"m","messages":[` + hi + `],"max_tokens":1,"max_completion_tokens":1}`, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."},
		{"chat", "limit", `{"model":"m","messages":[` + hi + `],"max_tokens":0}`, "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead."},
		{"chat", "stream options", `{"model":"m","messages":[` + hi + `],"stream_options":{}}`, "The 'stream_options' parameter is only allowed when 'stream' is enabled."},

		{"responses", "no input", `{"model":"m"}`, "Missing required parameter: 'input'."},
		{"responses", "item", items(`{"type":"tool_use"}`), "Invalid value: 'tool_use'. Supported values are: 'apply_patch_call',"},
		{"responses", "role", items(`{"role":"tool","content":"Hi"}`), "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'."},
		{"responses", "member", items(`{"role":"user","content":"Hi","ext":1}`), "Unknown parameter: 'input[0].ext'."},
		{"responses", "part", items(hi, `{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), "Invalid value: 'input_text'. Supported values are: 'output_text', 'refusal'."},
		{"responses", "no output", items(hi, item), "No tool output found for function call a."},
		{"responses", "no call", items(hi, out), "No tool call found for function call output with call_id a."},
		{"responses", "two outputs", items(hi, item, out, out), "Duplicate function call output with call_id a."},
		{"responses", "long ID", items(hi, strings.Replace(item, `"a"`, `"`+strings.Repeat("a", 65)+`"`, 1), strings.Replace(out, `"a"`, `"`+strings.Repeat("a", 65)+`"`, 1)), "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."},
		{"responses", "reasoning alone", items(hi, rs), "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
		{"responses", "reasoning before a user", items(hi, rs, hi), "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
		{"responses", "reasoning that is not encrypted", items(hi, strings.Replace(rs, `"x"`, `""`, 1), item, out), "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."},
		{"responses", "without the reasoning", items(hi, strings.Replace(item, `"call_id"`, `"id":"fc_1-after-rs_1","call_id"`, 1), out), "Item 'fc_1-after-rs_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."},
		{"responses", "item twice", items(hi, rs, item, rs, item, out), "Duplicate item found with id rs_1."},
		{"responses", "previous", `{"model":"m","input":"Hi","previous_response_id":"resp_1"}`, "Previous response with id 'resp_1' not found."},
		{"responses", "unknown", `{"model":"m","input":"Hi","messages":[]}`, "Unknown parameter: 'messages'."},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.name, func(t *testing.T) {
			m := &guardtest.Model{}
			for _, f := range openAIFormats {
				if f.name == tt.path {
					e := f.refusal(t, inProcess(m), tt.body)
					require.Equal(t, 400, e.Status)
					require.Equal(t, "invalid_request_error", e.Type)
					if !strings.HasPrefix(e.Message, tt.want) {
						t.Errorf("refused with %q, want %q", e.Message, tt.want)
					}
				}
			}
			require.Equal(t, 1, len(m.Invalid()))
		})
	}
}

// Failures have the wording of OpenAI, and the guard understands them.
func TestOpenAIFaults(t *testing.T) {
	long := hello()
	long.Messages = []transcript.Message{transcript.UserText(words(2000))}
	tests := []struct {
		name   string
		model  *guardtest.Model
		req    transcript.Request
		status int
		code   string
		kind   guard.Kind
	}{
		{"window", &guardtest.Model{Window: 500}, long, 400, "context_length_exceeded", guard.Tokens},
		{"output", &guardtest.Model{MaxOutput: 10}, hello(), 400, "invalid_value", guard.NotOverflow},
		{"bytes", &guardtest.Model{MaxBody: 100}, long, 413, "", guard.Bytes},
		{"overloaded", &guardtest.Model{Answer: guardtest.Always(guardtest.Overloaded())}, hello(), 503, "", guard.NotOverflow},
		{"rate", &guardtest.Model{Answer: guardtest.Always(guardtest.RateLimited(1))}, hello(), 429, "rate_limit_exceeded", guard.NotOverflow},
		{"broken", &guardtest.Model{Answer: guardtest.Always(guardtest.Broken())}, hello(), 500, "", guard.NotOverflow},
		{"key", &guardtest.Model{Answer: guardtest.Always(guardtest.Unauthorized())}, hello(), 401, "invalid_api_key", guard.NotOverflow},
		{"own", &guardtest.Model{Answer: guardtest.Always(guardtest.Fail(418, "teapot", "No."))}, hello(), 418, "", guard.NotOverflow},
	}
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		for _, tt := range tests {
			for _, stream := range []bool{false, true} {
				body, _, err := f.request(stream, tt.req)
				require.NoError(t, err)
				e := f.refusal(t, inProcess(tt.model), string(body))
				require.Equal(t, tt.status, e.Status)
				require.Equal(t, tt.code, e.Code)
				require.Equal(t, tt.kind, guard.Classify(e).Kind)
				requests := tt.model.Requests()
				require.Equal(t, tt.status, requests[len(requests)-1].Status)
			}
		}
	})
	reserve := &guardtest.Model{Window: 600, ReserveOutput: true}
	_, err := openAIFormats[0].ask(t.Context(), inProcess(reserve), false, hello())
	if o := guard.Classify(err); o.Kind != guard.TokensPlusOutput || o.Limit != 600 || o.Output != 1000 {
		t.Errorf("%q is %+v", err, o)
	}
}

// A stream that is cut keeps the received part, and one that fails reports it.
func TestOpenAIBrokenStreams(t *testing.T) {
	answer := guardtest.Answer{
		Text:  "Let me read all of these files.",
		Calls: []transcript.ToolCallBlock{guardtest.Tool("read", `{"paths": ["a/long/path/to/a", "a/long/path/to/b", "a/long/path/to/c"]}`)},
	}
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
			for name, tt := range map[string]struct {
				answer guardtest.Answer
				stop   transcript.StopReason
				input  string // the call's beginning
			}{
				"cut":   {guardtest.CutAfter(3, answer), "aborted", ""},
				"end":   {guardtest.EndAfter(3, answer), "aborted", ""},
				"input": {guardtest.CutInput(answer), "aborted", `"{\"paths\": [\"a/long/`},
				"error": {guardtest.FailAfter(3, "server_error", "It broke.", answer), "error", ""},
			} {
				m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
				resp, err := f.ask(t.Context(), start(m), true, hello())
				if (err == nil) != (name == "end") || resp == nil {
					t.Fatalf("%s: %v, %v", name, resp, err)
				}
				require.Equal(t, tt.stop, resp.StopReason)
				if text := resp.Message.Text(); text == "" || !strings.HasPrefix(answer.Text, text) {
					t.Errorf("%s: kept is %q", name, text)
				}
				if calls := resp.Message.ToolCalls(); tt.input != "" && (len(calls) != 1 || !strings.HasPrefix(string(calls[0].Input), tt.input)) {
					t.Errorf("%s: kept of the call is %v", name, calls)
				}
				if name == "error" && !strings.Contains(err.Error(), "It broke.") {
					t.Errorf("the error is %v", err)
				}
			}
		})
	})
}
