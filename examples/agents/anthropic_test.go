package main

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	messagesapi "github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// everyAnthropic is a request with everything that the SDK's own types change
// or lose: spellings, members and blocks that they do not know.
func everyAnthropic() transcript.Request {
	return transcript.Request{
		Model: "scripted", System: "<system> & \u2028", MaxOutput: 100,
		Tools: []transcript.Tool{{Name: "read", InputSchema: json.RawMessage(`{"type":"object","x-order":["a"],"properties":{"a":{"const":1.0}}}`)}},
		Messages: []transcript.Message{
			{Role: transcript.RoleUser, Content: []transcript.Block{
				transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}},
				transcript.TextBlock{Text: "<look> & \u2028", Extra: transcript.Extra{"cache_control": json.RawMessage(`{"type":"ephemeral"}`)}},
			}},
			{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.ThinkingBlock{Thinking: "Hm <", Signature: "c2lnbmF0dXJl"},
				transcript.RedactedThinkingBlock{Data: "ZGF0YQ=="},
				transcript.ToolCallBlock{ID: "toolu_1", Name: "read", Input: json.RawMessage(`{"b": 1.0, "a":12345678901234567890,"\u0041":"<"}`)},
				transcript.ToolCallBlock{ID: "toolu_2", Name: "read", Input: json.RawMessage(`{}`)},
			}},
			{Role: transcript.RoleUser, Content: []transcript.Block{
				transcript.ToolResultBlock{CallID: "toolu_1", Content: []transcript.Block{transcript.TextBlock{Text: "one"}}},
				transcript.ToolResultBlock{CallID: "toolu_2", IsError: true, Content: []transcript.Block{
					transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}},
				}},
			}},
		},
	}
}

// A request goes through the SDK byte for byte.
func TestAnthropicRequestBytes(t *testing.T) {
	m := &guardtest.Model{}
	a := open(t, "anthropic", m, nil).(*anthropicSDK)
	want, _, err := a.format.Request(everyAnthropic())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), a, everyAnthropic()); err != nil {
		t.Fatal(err)
	}
	if got := m.Requests()[0].Body; string(got) != string(want) {
		t.Errorf("sent is\n%s\nwant\n%s", got, want)
	}
	valid(t, m)
}

// An answer comes through the SDK unchanged, streamed or not.
func TestAnthropicAnswer(t *testing.T) {
	want := guardtest.Answer{
		Stop: "a_new_reason",
		Blocks: []transcript.Block{
			transcript.ThinkingBlock{Thinking: "Let me <see>.", Signature: "c2lnbmF0dXJl"},
			transcript.RedactedThinkingBlock{Data: "ZGF0YQ=="},
			transcript.TextBlock{Text: "Two calls & \u2028."},
			transcript.ToolCallBlock{ID: "toolu_1", Name: "read", Input: json.RawMessage(`{"b": 1.0, "a":12345678901234567890}`)},
			transcript.ToolCallBlock{ID: "toolu_2", Name: "read", Input: json.RawMessage(`{}`)},
			transcript.RawBlock{JSON: json.RawMessage(`{"type":"something_new","n":1.0}`)},
		},
		Usage: &transcript.Usage{
			Input: 5, Output: 7, CacheRead: 11, CacheWrite: 13,
			Extra: transcript.Extra{"service_tier": json.RawMessage(`"standard"`), "something": json.RawMessage(`{"new":1.0}`)},
		},
	}
	m := &guardtest.Model{Name: "scripted-20260101", Answer: guardtest.Always(want)}
	a := open(t, "anthropic", m, nil).(*anthropicSDK)
	streamed, err := ask(t.Context(), a, everyAnthropic())
	if err != nil {
		t.Fatal(err)
	}
	if streamed.StopReason != want.Stop || streamed.Model != m.Name || streamed.API != "anthropic" || streamed.RequestID != "req_000001" {
		t.Errorf("the answer is %+v", streamed)
	}
	if !reflect.DeepEqual(streamed.Usage, *want.Usage) {
		t.Errorf("usage is %+v, want %+v", streamed.Usage, *want.Usage)
	}
	if got, want := asJSON(t, streamed.Message.Content), asJSON(t, want.Blocks); got != want {
		t.Errorf("the answer is\n%s\nwant\n%s", got, want)
	}

	body, _, err := messagesapi.Format{}.Request(everyAnthropic())
	if err != nil {
		t.Fatal(err)
	}
	message, err := a.sdk.Messages.New(t.Context(), anthropic.MessageNewParams{}, option.WithRequestBody("application/json", body))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := messagesapi.Format{}.Response([]byte(message.RawJSON()))
	if err != nil {
		t.Fatal(err)
	}
	whole.RequestID = streamed.RequestID // in a header
	if got, want := asJSON(t, whole.Message), asJSON(t, streamed.Message); got != want || whole.StopReason != streamed.StopReason {
		t.Errorf("not streamed it is\n%s\nwant\n%s", got, want)
	}
	if !reflect.DeepEqual(whole.Usage, streamed.Usage) {
		t.Errorf("not streamed usage is %+v, want %+v", whole.Usage, streamed.Usage)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Reasoning goes back with its signature while the tools run.
func TestAnthropicThinking(t *testing.T) {
	call := guardtest.Tool("read", `{"path":"a"}`)
	call.ID = "toolu_1"
	think := transcript.ThinkingBlock{Thinking: "I need the file.", Signature: "c2lnbmF0dXJl"}
	m := &guardtest.Model{Answer: guardtest.Script(
		guardtest.Answer{Blocks: []transcript.Block{think, transcript.RedactedThinkingBlock{Data: "ZGF0YQ=="}, transcript.TextBlock{Text: "Wait."}, call}},
		guardtest.Answer{Blocks: []transcript.Block{think, transcript.TextBlock{Text: "Alpha."}}},
		guardtest.Say("You are welcome."),
	)}
	c := testConfig(t, "anthropic", m, newTool("read", func(context.Context, json.RawMessage) (string, error) { return "alpha", nil }))
	c.maxOutput, c.reasoning = 4000, json.RawMessage(`{"type":"enabled","budget_tokens":2000}`)
	contains(t, drive(t, c, "read a"), "Wait.\n", "Alpha.\n")
	contains(t, drive(t, c, "thanks"), "You are welcome.")
	contains(t, messages(t, m.Requests()[1])[1],
		`{"type":"thinking","thinking":"I need the file.","signature":"c2lnbmF0dXJl"}`, `{"type":"redacted_thinking","data":"ZGF0YQ=="}`,
		`"Wait."`, `{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}`)
	contains(t, string(m.Requests()[1].Body), `"thinking":{"type":"enabled","budget_tokens":2000}`)
	valid(t, m)
}

// The guard classifies the errors of the SDK.
func TestAnthropicErrors(t *testing.T) {
	tests := []struct {
		name   string
		answer guardtest.Answer
		kind   guard.Kind
	}{
		{"too long", guardtest.Fail(400, "invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"), guard.Tokens},
		{"with output", guardtest.Fail(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"), guard.TokensPlusOutput},
		{"too large", guardtest.TooLarge(), guard.Bytes},
		{"too large for the proxy", guardtest.Page(413, "<html><body><h1>413 Request Entity Too Large</h1></body></html>"), guard.Bytes},
		{"too long in a stream", guardtest.FailAfter(1, "invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum", guardtest.Say("never")), guard.Tokens},
		{"overloaded", guardtest.Overloaded(), guard.NotOverflow},
		{"overloaded in a stream", guardtest.FailAfter(3, "overloaded_error", "Overloaded", guardtest.Say("never")), guard.NotOverflow},
		{"rate limit", guardtest.RateLimited(0), guard.NotOverflow},
		{"broken", guardtest.Broken(), guard.NotOverflow},
		{"key", guardtest.Unauthorized(), guard.NotOverflow},
		{"invalid", guardtest.Fail(400, "invalid_request_error", "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"), guard.NotOverflow},
		{"connection", guardtest.CutAfter(3, guardtest.Say("never")), guard.NotOverflow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
			// The user's text must not decide: the error holds the request.
			_, err := ask(t.Context(), open(t, "anthropic", m, nil), transcript.Request{
				Model: "scripted", Messages: []transcript.Message{transcript.UserText("prompt is too long: 9 tokens > 1 maximum")},
			})
			if err == nil {
				t.Fatal("no error")
			}
			o := guard.Classify(err)
			if o.Kind != tt.kind {
				t.Errorf("%q is %+v", err, o)
			}
			if strings.HasPrefix(tt.name, "too long") && (o.Prompt != 215_000 || o.Limit != 200_000) {
				t.Errorf("%q has the sizes %+v", err, o)
			}
		})
	}
}

// A real refusal of the service, and the error that the application gets if
// nothing cures it.
func TestAnthropicOverflow(t *testing.T) {
	m := &guardtest.Model{Window: 1000}
	c := testConfig(t, "anthropic", m)
	c.window = 0
	out := drive(t, c, strings.Repeat("lorem ipsum ", 2000), "short")
	contains(t, out, "Error: ", "prompt is too long")
	a := open(t, "anthropic", m, nil).(*anthropicSDK)
	_, err := ask(t.Context(), a, transcript.Request{Messages: []transcript.Message{transcript.UserText(strings.Repeat("lorem ipsum ", 2000))}, Model: "m"})
	refusal, ok := errors.AsType[*anthropic.Error](err)
	if !ok || refusal.StatusCode != 400 || refusal.RequestID == "" {
		t.Fatalf("the error is %v", err)
	}
	if o := guard.Classify(err); o.Kind != guard.Tokens || o.Limit != 1000 || o.Prompt <= 1000 {
		t.Errorf("%q is %+v", err, o)
	}
	valid(t, m)
}
