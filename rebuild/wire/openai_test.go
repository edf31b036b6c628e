package wire_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// An openAIFormat is one of OpenAI's APIs, and makes its bodies and events.
type openAIFormat struct {
	name, api string
	request   func(transcript.Request) ([]byte, rebuild.Report, error)
	response  func([]byte) (*transcript.Response, error)
	validate  func([]byte) []wiretest.Violation
	stream    func() wire.Stream
	list      string // the member that holds the conversation
	answers   map[string]string
	events    func(t testing.TB, body string, n int) []string
}

var chat = openAIFormat{
	name: "chat", api: "openai-chat", list: `"messages":`, answers: chatAnswers, events: chatEvents,
	request: openaichat.Format{}.Request, response: openaichat.Format{}.Response, validate: check(wiretest.OpenAIChat{}),
	stream: openaichat.Format{}.NewStream,
}

var responses = openAIFormat{
	name: "responses", api: "openai-responses", list: `"input":`, answers: responsesAnswers, events: responsesEvents,
	request: openairesponses.Format{}.Request, response: openairesponses.Format{}.Response, validate: check(wiretest.OpenAIResponses{}),
	stream: openairesponses.Format{}.NewStream,
}

// eachOpenAI runs a test for both APIs.
func eachOpenAI(t *testing.T, f func(t *testing.T, format openAIFormat)) {
	for _, format := range []openAIFormat{chat, responses} {
		t.Run(format.name, func(t *testing.T) { f(t, format) })
	}
}

// body renders a request, which must then be valid.
func (f openAIFormat) body(t testing.TB, req transcript.Request) (string, rebuild.Report) {
	t.Helper()
	body, report, err := f.request(req)
	require.NoError(t, err)
	if found := f.validate(body); len(found) > 0 {
		t.Fatalf("violations: %v\nreport: %v\nbody: %s", found, report, body)
	}
	again, _, err := f.request(req)
	require.NoError(t, err)
	require.Equal(t, string(body), string(again))
	return string(body), report
}

// conversation returns the list of messages or items in a body.
func (f openAIFormat) conversation(body string) string {
	_, list, _ := strings.Cut(body, f.list)
	return list
}

// Answers of Chat Completions: bodies that were not streamed.
var chatAnswers = map[string]string{
	"text": `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x-2026-01-31","choices":[{"index":0,"message":{"role":"assistant","content":"Hello <&> \u2028 🙂","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":12,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":5}},"service_tier":"default"}`,
	"calls": `{"id":"chatcmpl-2","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\": \"a<b>\",  \"n\": 1.0}"}},{"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":3}}`,
	"text and call": `{"id":"chatcmpl-3","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}`,
	"refusal":       `{"id":"chatcmpl-4","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I cannot help with that."},"finish_reason":"stop"}]}`,
	"length":        `{"id":"chatcmpl-5","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"And then the"},"finish_reason":"length"}]}`,
	"reasoning":     `{"id":"chatcmpl-6","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"I need the file.","content":"Wait.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_cache_hit_tokens":4}}`,
}

// chatEvents streams a body in deltas of n bytes.
func chatEvents(t testing.TB, body string, n int) (events []string) {
	t.Helper()
	var full struct {
		Model, ID string
		Usage     json.RawMessage
		Choices   []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content, Refusal string
				Reasoning        string `json:"reasoning_content"`
				ToolCalls        []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &full))
	chunk := func(delta any, finish any) {
		events = append(events, string(quoteAny(t, map[string]any{
			"id": full.ID, "object": "chat.completion.chunk", "model": full.Model, "usage": nil,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		})))
	}
	m := full.Choices[0].Message
	chunk(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, member := range []struct{ name, text string }{{"reasoning_content", m.Reasoning}, {"content", m.Content}, {"refusal", m.Refusal}} {
		for _, s := range cut(member.text, n) {
			chunk(map[string]any{member.name: s}, nil)
		}
	}
	for i, c := range m.ToolCalls {
		call := func(members map[string]any) {
			members["index"] = i
			chunk(map[string]any{"tool_calls": []any{members}}, nil)
		}
		call(map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Function.Name, "arguments": ""}})
		for _, s := range cut(c.Function.Arguments, n) {
			call(map[string]any{"function": map[string]any{"arguments": s}})
		}
	}
	chunk(map[string]any{}, full.Choices[0].FinishReason)
	if full.Usage != nil {
		events = append(events, string(quoteAny(t, map[string]any{"id": full.ID, "model": full.Model, "choices": []any{}, "usage": full.Usage})))
	}
	return append(events, "[DONE]")
}

// Answers of the Responses API: bodies that were not streamed.
var responsesAnswers = map[string]string{
	"text": responsesBody("completed", `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello <&> \u2028 🙂","annotations":[{"type":"url_citation","url":"https://x.example/"}],"logprobs":[]}]}`),
	"calls": responsesBody("completed", `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**Looking**"},{"type":"summary_text","text":"Both."}],"encrypted_content":"gAAA=="}`,
		`{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"read","arguments":"{\"path\": \"a<b>\",  \"n\": 1.0}"}`,
		`{"id":"fc_2","type":"function_call","status":"completed","call_id":"call_2","name":"list","arguments":"{}"}`),
	"reasoning, text, call": responsesBody("completed", `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA=="}`,
		`{"id":"msg_1","type":"message","status":"completed","phase":"commentary","role":"assistant","content":[{"type":"output_text","text":"Let me","annotations":[]},{"type":"output_text","text":" look.","annotations":[]}]}`,
		`{"id":"rs_2","type":"reasoning","summary":[{"type":"summary_text","text":"Now."}],"encrypted_content":"gBBB=="}`,
		`{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"read","arguments":"{}"}`),
	"search": responsesBody("completed", `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA=="}`,
		`{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"go"}}`,
		`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Found.","annotations":[]}]}`),
	"custom":  responsesBody("completed", `{"id":"ctc_1","type":"custom_tool_call","status":"completed","call_id":"call_1","name":"patch","input":"*** a\n\"b\""}`),
	"refusal": responsesBody("completed", `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"I cannot help with that."}]}`),
	"length":  responsesBody("incomplete", `{"id":"msg_1","type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"And then the","annotations":[]}]}`),
}

func responsesBody(status string, items ...string) string {
	details := "null"
	if status == "incomplete" {
		details = `{"reason":"max_output_tokens"}`
	}
	return `{"id":"resp_1","object":"response","status":"` + status + `","error":null,"incomplete_details":` + details + `,"model":"gpt-x-2026-01-31","output":[` + strings.Join(items, ",") +
		`],"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":12},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":27}}`
}

// responsesEvents streams a body in deltas of n bytes.
func responsesEvents(t testing.TB, body string, n int) (events []string) {
	t.Helper()
	var full struct {
		Status string
		Output []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(body), &full))
	add := func(kind string, members map[string]any) {
		members["type"], members["sequence_number"] = kind, len(events)
		events = append(events, string(quoteAny(t, members)))
	}
	add("response.created", map[string]any{"response": map[string]any{"id": "resp_1", "status": "in_progress", "model": "gpt-x-2026-01-31", "error": nil, "output": []any{}, "usage": nil}})
	for i, item := range full.Output {
		start := maps.Clone(item)
		texts := func(kind, index, member string, from any) {
			list, _ := from.([]any)
			for j, p := range list {
				text, _ := p.(map[string]any)[member].(string)
				for _, s := range cut(text, n) {
					add(kind, map[string]any{"output_index": i, index: j, "delta": s})
				}
			}
		}
		input := func(kind, text string) {
			for _, s := range cut(text, n) {
				add(kind, map[string]any{"output_index": i, "delta": s})
			}
		}
		for _, name := range []string{"content", "summary"} {
			if start[name] != nil {
				start[name] = []any{}
			}
		}
		for _, name := range []string{"arguments", "input", "encrypted_content"} {
			if start[name] != nil {
				start[name] = ""
			}
		}
		add("response.output_item.added", map[string]any{"output_index": i, "item": start})
		switch item["type"] {
		case "message":
			texts("response.output_text.delta", "content_index", "text", item["content"])
			texts("response.refusal.delta", "content_index", "refusal", item["content"])
		case "reasoning":
			texts("response.reasoning_summary_text.delta", "summary_index", "text", item["summary"])
		case "function_call":
			input("response.function_call_arguments.delta", item["arguments"].(string))
		case "custom_tool_call":
			input("response.custom_tool_call_input.delta", item["input"].(string))
		}
		var raw struct{ Output []json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(body), &raw))
		add("response.output_item.done", map[string]any{"output_index": i, "item": raw.Output[i]})
		add("response.something_new", map[string]any{})
	}
	add("response."+full.Status, map[string]any{"response": json.RawMessage(body)})
	return events
}

// results returns the results of the calls of an answer.
func results(resp *transcript.Response) (m transcript.Message) {
	m.Role = transcript.RoleUser
	for _, c := range resp.Message.ToolCalls() {
		m.Content = append(m.Content, transcript.ToolResult(c.ID, "result of "+c.Name).Content...)
	}
	if len(m.Content) == 0 {
		return transcript.UserText("and?")
	}
	return m
}

// Every answer that is recorded, folded and rendered comes out as it came in,
// streamed or not.
func TestOpenAIRoundTrip(t *testing.T) {
	want := map[string]string{
		"text":          `{"role":"assistant","content":"Hello <&> \u2028 🙂"}`,
		"calls":         `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\": \"a<b>\",  \"n\": 1.0}"}},{"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]}`,
		"text and call": `{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"a\":1}"}}]}`,
		"refusal":       `{"role":"assistant","content":null,"refusal":"I cannot help with that."}`,
		"length":        `{"role":"assistant","content":"And then the"}`,
		"reasoning":     `{"role":"assistant","reasoning_content":"I need the file.","content":"Wait.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"}}]}`,
	}
	for _, f := range []openAIFormat{chat, responses} {
		for name, body := range f.answers {
			t.Run(f.name+" "+name, func(t *testing.T) {
				f := f
				if name == "reasoning" {
					f.request, f.validate = openaichat.Format{Reasoning: true}.Request, check(wiretest.OpenAIChat{Reasoning: true})
				}
				whole, err := f.response([]byte(body))
				require.NoError(t, err)
				s := f.stream()
				for _, e := range f.events(t, body, 3) {
					_, err := s.Add([]byte(e))
					require.NoError(t, err)
				}
				for _, resp := range []*transcript.Response{whole, s.Response()} {
					h := recorded(t, transcript.UserText("go"), resp, results(resp))
					out, report := f.body(t, transcript.Request{Model: "gpt-x", Messages: h.Messages})
					if len(report) > 0 {
						t.Errorf("report: %v", report)
					}
					var sent struct{ Messages, Input []json.RawMessage }
					require.NoError(t, json.Unmarshal([]byte(out), &sent))
					if f.name == "chat" {
						if !sameJSON(t, string(sent.Messages[1]), want[name]) {
							t.Errorf("sent\n%s\nwant\n%s", sent.Messages[1], want[name])
						}
						continue
					}
					var got struct{ Output []json.RawMessage }
					require.NoError(t, json.Unmarshal([]byte(body), &got))
					for i, item := range got.Output {
						if !sameJSON(t, string(sent.Input[i+1]), string(item)) {
							t.Errorf("sent\n%s\nwant\n%s", sent.Input[i+1], item)
						}
					}
				}
			})
		}
	}
}

// A streamed answer equals the whole one, whatever the size of the deltas, and
// its deltas show all of it.
func TestOpenAIStreamEqualsResponse(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		for name, body := range f.answers {
			whole, err := f.response([]byte(body))
			if err != nil {
				t.Fatal(name, err)
			}
			for _, n := range []int{1, 5, 1000} {
				s := f.stream()
				var shown wire.Delta
				for _, e := range f.events(t, body, n) {
					d, err := s.Add([]byte(e))
					if err != nil {
						t.Fatal(name, err)
					}
					shown.Text += d.Text
					shown.Input += d.Input
					shown.ToolName += d.ToolName
					shown.Done = shown.Done || d.Done
				}
				got := s.Response()
				if !sameJSON(t, string(message0(t, got)), string(message0(t, whole))) {
					t.Errorf("%s: streamed in %d bytes is\n%s\nwant\n%s", name, n, message0(t, got), message0(t, whole))
				}
				var names strings.Builder
				for _, c := range whole.Message.ToolCalls() {
					names.WriteString(c.Name)
				}
				if shown.Text != whole.Message.Text() || shown.ToolName != names.String() || !shown.Done {
					t.Errorf("%s: shown is %+v", name, shown)
				}
				got.Message = whole.Message
				if !reflect.DeepEqual(got, whole) {
					t.Errorf("%s: streamed %+v, want %+v", name, got, whole)
				}
			}
		}
	})
}

// texts returns all strings of a decoded JSON value, one after the other.
func texts(v any) (all string) {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, e := range v {
			all += texts(e)
		}
	case map[string]any:
		for _, name := range []string{"messages", "input", "content", "text", "refusal"} {
			all += texts(v[name])
		}
	}
	return all
}

// A stream cut at any event keeps the received part, and that part renders to a
// valid request.
func TestOpenAIStreamCut(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		for name, body := range f.answers {
			events := f.events(t, body, 4)
			for n := range events {
				s := f.stream()
				var text strings.Builder
				input := "" // of the last call
				for _, e := range events[:n] {
					d, err := s.Add([]byte(e))
					require.NoError(t, err)
					text.WriteString(d.Text)
					if d.ToolName != "" {
						input = ""
					}
					input += d.Input
				}
				resp := s.Response()
				if calls := resp.Message.ToolCalls(); len(calls) > 0 {
					got := calls[len(calls)-1].Input
					var part string // of an unfinished input
					whole := json.Unmarshal(got, &part) != nil
					if !whole && part != input || whole && name != "custom" && string(got) != input {
						t.Fatalf("%s: cut after %d events the input is %s, shown %q", name, n, got, input)
					}
				}
				if resp.Message.Text() != text.String() {
					t.Fatalf("%s: %q is kept of %q", name, resp.Message.Text(), &text)
				}
				if whole := strings.Contains(strings.Join(events[:n], ""), `finish_reason":"`); (resp.StopReason == transcript.StopAborted) == whole {
					t.Fatalf("%s: cut after %d events the stop reason is %q", name, n, resp.StopReason)
				}
				h := recorded(t, transcript.UserText("go"), resp, transcript.UserText("and?"))
				out, _ := f.body(t, transcript.Request{Model: "gpt-x", Messages: h.Messages})
				var sent any
				require.NoError(t, json.Unmarshal([]byte(out), &sent))
				if kept := resp.Message.Text(); !strings.Contains(texts(sent), kept) {
					t.Fatalf("%s: %q is not in %s", name, kept, out)
				}
			}
		}
	})
}

func TestOpenAIUsage(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		resp, err := f.response([]byte(f.answers["text"]))
		require.NoError(t, err)
		u := resp.Usage
		if u.Input != 8 || u.CacheRead != 12 || u.Output != 7 || u.Prompt() != 20 {
			t.Errorf("usage is %+v", u)
		}
		reasoning := slices.ContainsFunc([]string{"completion_tokens_details", "output_tokens_details"}, func(name string) bool {
			return strings.Contains(string(u.Extra[name]), `"reasoning_tokens":5`)
		})
		if !reasoning {
			t.Errorf("the tokens of reasoning are not in %v", u.Extra)
		}
		if resp.API != f.api || resp.Model != "gpt-x-2026-01-31" || resp.RequestID == "" {
			t.Errorf("the answer is %+v", resp)
		}
	})
	for name, want := range map[string]transcript.StopReason{
		"text": "end_turn", "calls": "tool_use", "refusal": "refusal", "length": "max_tokens",
	} {
		for _, f := range []openAIFormat{chat, responses} {
			resp, err := f.response([]byte(f.answers[name]))
			if err != nil || resp.StopReason != want {
				t.Errorf("%s %s: stop reason %q, %v", f.name, name, resp.StopReason, err)
			}
		}
	}
}

func TestOpenAIErrors(t *testing.T) {
	const refusal = `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`
	eachOpenAI(t, func(t *testing.T, f openAIFormat) {
		for _, body := range []string{"", "[]", "{}", `{"choices":[]}`, `{"output":{}}`, `{"choices":[{"message":{"role":"user"}}]}`, `{"output":["x"]}`, `{"output":[],"choices":[{"message":{"content":7}}],"usage":7}`} {
			if resp, err := f.response([]byte(body)); err == nil {
				t.Errorf("%s was read as %+v", body, resp)
			}
		}
		s := f.stream()
		_, streamed := s.Add([]byte(refusal))
		_, whole := f.response([]byte(refusal))
		for _, err := range []error{streamed, whole} {
			e, ok := errors.AsType[*wire.APIError](err)
			if !ok || e.Code != "context_length_exceeded" || e.Type != "invalid_request_error" || !strings.HasPrefix(e.Message, "Your input") {
				t.Errorf("the error is %v", err)
			}
		}
		if stop := s.Response().StopReason; stop != transcript.StopError {
			t.Errorf("the stop reason is %q", stop)
		}
		for _, event := range []string{"", "x", "7"} {
			if _, err := s.Add([]byte(event)); err == nil {
				t.Errorf("%q was taken", event)
			}
		}
	})
	for _, event := range []string{
		`{"type":"error","code":"context_length_exceeded","message":"Too long.","param":null,"sequence_number":3}`,
		`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"context_length_exceeded","message":"Too long."},"output":[]}}`,
	} {
		s := responses.stream()
		_, err := s.Add([]byte(event))
		if e, ok := errors.AsType[*wire.APIError](err); !ok || e.Code != "context_length_exceeded" || e.Message != "Too long." {
			t.Errorf("the error is %v", err)
		}
		if stop := s.Response().StopReason; stop != transcript.StopError {
			t.Errorf("the stop reason is %q", stop)
		}
	}
	_, _, err := (openairesponses.Format{Reasoning: json.RawMessage("7")}).Request(transcript.Request{})
	require.Error(t, err, "reasoning that is no object was rendered")
	_, _, err = chat.request(transcript.Request{Messages: []transcript.Message{{Role: "tool"}}})
	require.Error(t, err, "a role that is none was rendered")
}
