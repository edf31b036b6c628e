package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// eachOpenAI runs a test over the two APIs of OpenAI.
func eachOpenAI(t *testing.T, f func(t *testing.T, api string)) {
	for _, api := range []string{"chat", "responses"} {
		t.Run(api, func(t *testing.T) { f(t, api) })
	}
}

// everyOpenAI is a request with all kinds of blocks, and OpenAI's data on them.
func everyOpenAI() transcript.Request {
	const image = "iVBORw0KGgo="
	ext := func(text string) transcript.Extra { return transcript.Extra{"ext": json.RawMessage(text)} }
	return transcript.Request{
		Model: "scripted", System: "<system> & \u2028", MaxOutput: 100,
		Tools: []transcript.Tool{{Name: "read", Description: "Read.", InputSchema: json.RawMessage(`{"type":"object","x-order":["a"],"properties":{"a":{"const":1.5}}}`)}},
		Messages: []transcript.Message{
			{Role: transcript.RoleUser, Content: []transcript.Block{
				transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: image}},
				transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "https://example.com/a.png"}},
				transcript.DocumentBlock{Title: "a", Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0="}},
				transcript.DocumentBlock{Source: transcript.Source{Type: "file", FileID: "file-1"}},
				transcript.DocumentBlock{Source: transcript.Source{Type: "url", URL: "https://example.com/a.pdf"}},
				transcript.TextBlock{Text: "<look> & \u2028"},
			}},
			{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.ThinkingBlock{Thinking: "Hm.", Extra: ext(`{"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"Z0FBQQ=="}}`)},
				transcript.TextBlock{Text: "Wait.", Extra: ext(`{"item":{"id":"msg_1","status":"completed","phase":"commentary"},"part":{"annotations":[]}}`)},
				transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: json.RawMessage(`{"b": 1.0, "a":12345678901234567890,"\u0041":"<"}`), Extra: ext(`{"item":{"id":"fc_1","status":"completed"}}`)},
				transcript.ToolCallBlock{ID: strings.Repeat("x", 70), Name: "read", Input: json.RawMessage(`{}`)},
			}},
			{Role: transcript.RoleUser, Content: []transcript.Block{
				transcript.ToolResultBlock{CallID: "call_1", Content: []transcript.Block{transcript.TextBlock{Text: "one"}, transcript.TextBlock{Text: "two"}}},
				transcript.ToolResultBlock{CallID: strings.Repeat("x", 70), Content: []transcript.Block{
					transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: image}},
				}},
			}},
			{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.TextBlock{Text: "I cannot say.", Extra: ext(`{"refusal":true,"item":{"id":"msg_2","status":"completed"},"part":{}}`)},
			}},
			transcript.UserText("Why?"),
		},
	}
}

// A rendering decodes into the types of the SDK and encodes back to the same JSON.
func TestOpenAIRequestTypes(t *testing.T) {
	chat, _, err := openaichat.Format{SystemRole: "developer"}.Request(everyOpenAI())
	if err != nil {
		t.Fatal(err)
	}
	var chatParams openai.ChatCompletionNewParams
	sameJSON(t, chat, through(t, chat, &chatParams))
	if len(chatParams.Messages) != 8 || chatParams.Messages[2].OfAssistant == nil || len(chatParams.Messages[2].OfAssistant.ToolCalls) != 2 ||
		chatParams.Messages[1].OfUser == nil || len(chatParams.Messages[1].OfUser.Content.OfArrayOfContentParts) != 5 {
		t.Errorf("the SDK reads %+v", chatParams.Messages)
	}

	format := openairesponses.Format{Reasoning: json.RawMessage(`{"effort":"medium","summary":"auto"}`)}
	body, _, err := format.Request(everyOpenAI())
	if err != nil {
		t.Fatal(err)
	}
	var params responses.ResponseNewParams
	// A message with an ID decodes into the type without one: the list has no
	// mark to tell them apart. It has its own type.
	var sent struct{ Input []map[string]any }
	through(t, body, &sent)
	for _, item := range sent.Input {
		if item["type"] == "message" && item["id"] != nil {
			text, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, text, through(t, text, new(responses.ResponseOutputMessageParam)))
		}
	}
	noID := body
	for _, id := range []string{`"id":"msg_1","status":"completed",`, `"id":"msg_2","status":"completed",`} {
		noID = bytes.Replace(noID, []byte(id), nil, 1)
	}
	sameJSON(t, noID, through(t, body, &params))
	items := params.Input.OfInputItemList
	if len(items) != 9 || items[1].OfReasoning == nil || items[2].OfOutputMessage == nil && items[2].OfMessage == nil ||
		items[3].OfFunctionCall == nil || items[5].OfFunctionCallOutput == nil {
		t.Errorf("the SDK reads %+v", items)
	}
}

// A request with any of the blocks above decodes into the types of the SDK and
// encodes back to the same JSON.
func TestOpenAIRandomRequestTypes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		req := everyOpenAI()
		for i, m := range req.Messages {
			req.Messages[i].Content = slices.DeleteFunc(m.Content, func(b transcript.Block) bool {
				switch b.(type) {
				case transcript.ToolCallBlock, transcript.ToolResultBlock:
					return false
				}
				return len(m.Content) > 1 && rnd.IntN(3) == 0
			})
		}
		if len(req.Messages[0].Content) == 0 {
			req.Messages[0] = transcript.UserText("go")
		}
		req.Messages = req.Messages[:[]int{1, 3, 5}[rnd.IntN(3)]]
		chat, _, err := openaichat.Format{}.Request(req)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, chat, through(t, chat, new(openai.ChatCompletionNewParams)))
		body, _, err := openairesponses.Format{}.Request(req)
		if err != nil {
			t.Fatal(err)
		}
		got := through(t, body, new(responses.ResponseNewParams))
		for _, id := range []string{`"id":"msg_1","status":"completed",`, `"id":"msg_2","status":"completed",`} {
			body = bytes.Replace(body, []byte(id), nil, 1)
		}
		sameJSON(t, body, got)
		if len(wiretest.Check(wiretest.OpenAIChat{}, chat))+len(wiretest.Check(wiretest.OpenAIResponses{}, body)) > 0 {
			t.Errorf("not valid:\n%s\n%s", chat, body)
		}
	}
}

// through decodes a body into params and encodes it again.
func through(t *testing.T, body []byte, params any) []byte {
	t.Helper()
	if err := json.Unmarshal(body, params); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameJSON compares values; a null member equals a missing one.
func sameJSON(t *testing.T, want, got []byte) {
	t.Helper()
	want = bytes.ReplaceAll(want, []byte(`"content":null,`), nil)
	value := func(text []byte) (v any) {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if !reflect.DeepEqual(value(want), value(got)) {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

// A request goes through the SDK byte for byte.
func TestOpenAIRequestBytes(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{}
		a := open(t, api, m, nil).(*openaiSDK)
		want, _, err := a.request(everyOpenAI())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), a, everyOpenAI()); err != nil {
			t.Fatal(err)
		}
		if got := m.Requests()[0].Body; string(got) != string(want) {
			t.Errorf("sent is\n%s\nwant\n%s", got, want)
		}
		valid(t, m)
	})
}

// talk is an answer with every kind of block of both APIs.
var talk = guardtest.Answer{
	Blocks: []transcript.Block{
		transcript.ThinkingBlock{Thinking: "Let me <see>.", Signature: "c2lnbmF0dXJl"},
		transcript.TextBlock{Text: "Two calls & \u2028."},
		transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: json.RawMessage(`{"b": 1.0, "a":12345678901234567890}`)},
		transcript.ToolCallBlock{ID: "call_2", Name: "read", Input: json.RawMessage(`{}`)},
	},
	Usage: &transcript.Usage{Input: 5, Output: 7, CacheRead: 11},
}

// The typed methods of the SDK talk to the strict server over a port, whole and
// streamed; their results convert to the same answer as our own.
func TestOpenAITypedClient(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{Name: "scripted-2026-01-01", Answer: guardtest.Always(talk)}
		server := guardtest.NewServer(m)
		defer server.Close()
		sdk := openai.NewClient(option.WithAPIKey("key"), option.WithBaseURL(server.URL+"/v1"), option.WithHTTPClient(server.Client()), option.WithMaxRetries(0))
		a := open(t, api, m, nil).(*openaiSDK)
		ours, err := ask(t.Context(), a, everyOpenAI())
		if err != nil {
			t.Fatal(err)
		}
		var whole, streamed *transcript.Response
		if api == "chat" {
			whole, streamed = typedChat(t, sdk)
		} else {
			whole, streamed = typedResponses(t, sdk)
		}
		for name, resp := range map[string]*transcript.Response{"whole": whole, "streamed": streamed} {
			if resp.StopReason != transcript.StopToolUse || resp.Model != m.Name || resp.Usage.Input != 5 || resp.Usage.CacheRead != 11 || resp.Usage.Output != 7 {
				t.Errorf("%s: the answer is %+v", name, resp)
			}
			if got, want := contentOf(resp), contentOf(ours); got != want {
				t.Errorf("%s: the answer is\n%s\nwant\n%s", name, got, want)
			}
		}
		valid(t, m)
	})
}

// contentOf returns the content of an answer, without IDs of items.
func contentOf(resp *transcript.Response) string {
	var sb strings.Builder
	for _, b := range resp.Message.Content {
		switch b := b.(type) {
		case transcript.ThinkingBlock:
			sb.WriteString("(" + b.Thinking + ")")
		case transcript.TextBlock:
			sb.WriteString(b.Text)
		case transcript.ToolCallBlock:
			sb.WriteString("[" + b.ID + " " + b.Name + " " + string(b.Input) + "]")
		}
	}
	return sb.String()
}

func typedChat(t *testing.T, sdk openai.Client) (whole, streamed *transcript.Response) {
	body, _, err := openaichat.Format{}.Request(everyOpenAI())
	if err != nil {
		t.Fatal(err)
	}
	var params openai.ChatCompletionNewParams
	through(t, body, &params)
	completion, err := sdk.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if whole, err = (openaichat.Format{}).Response([]byte(completion.RawJSON())); err != nil {
		t.Fatal(err)
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	events := sdk.Chat.Completions.NewStreaming(t.Context(), params)
	in := openaichat.Format{}.NewStream()
	var acc openai.ChatCompletionAccumulator
	for events.Next() {
		acc.AddChunk(events.Current())
		if _, err := in.Add([]byte(events.Current().RawJSON())); err != nil {
			t.Fatal(err)
		}
	}
	if events.Err() != nil {
		t.Fatal(events.Err())
	}
	if m := acc.Choices[0].Message; m.Content != "Two calls & \u2028." || len(m.ToolCalls) != 2 || m.ToolCalls[0].Function.Arguments != `{"b": 1.0, "a":12345678901234567890}` {
		t.Errorf("the SDK put together %+v", m)
	}
	return whole, in.Response()
}

func typedResponses(t *testing.T, sdk openai.Client) (whole, streamed *transcript.Response) {
	body, _, err := openairesponses.Format{}.Request(everyOpenAI())
	if err != nil {
		t.Fatal(err)
	}
	var params responses.ResponseNewParams
	through(t, body, &params)
	response, err := sdk.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if response.OutputText() != "Two calls & \u2028." {
		t.Errorf("the SDK reads %+v", response)
	}
	if whole, err = (openairesponses.Format{}).Response([]byte(response.RawJSON())); err != nil {
		t.Fatal(err)
	}
	events := sdk.Responses.NewStreaming(t.Context(), params)
	in := openairesponses.Format{}.NewStream()
	for events.Next() {
		if _, err := in.Add([]byte(events.Current().RawJSON())); err != nil {
			t.Fatal(err)
		}
	}
	if events.Err() != nil {
		t.Fatal(events.Err())
	}
	return whole, in.Response()
}

// Reasoning goes back with the call that it led to, in this turn and the next.
func TestOpenAIReasoning(t *testing.T) {
	call := guardtest.Tool("read", `{"path":"a"}`)
	call.ID = "call_1"
	think := transcript.ThinkingBlock{Thinking: "I need the file.", Signature: "c2lnbmF0dXJl"}
	m := &guardtest.Model{Answer: guardtest.Script(
		guardtest.Answer{Blocks: []transcript.Block{think, transcript.TextBlock{Text: "Wait."}, call}},
		guardtest.Answer{Blocks: []transcript.Block{think, transcript.TextBlock{Text: "Alpha."}}},
		guardtest.Say("You are welcome."),
	)}
	c := testConfig(t, "responses", m, newTool("read", func(context.Context, json.RawMessage) (string, error) { return "alpha", nil }))
	c.reasoning = json.RawMessage(`{"effort":"medium"}`)
	contains(t, drive(t, c, "read a"), "Wait.\n", "Alpha.\n")
	contains(t, drive(t, c, "thanks"), "You are welcome.")
	contains(t, string(m.Requests()[2].Body), `"reasoning":{"effort":"medium"}`, `"include":["reasoning.encrypted_content"]`,
		`"type":"reasoning"`, `"Wait."`, `"function_call"`, `"function_call_output"`, `"type":"reasoning"`, `"Alpha."`, "thanks")
	valid(t, m)

	// The other API continues the conversation.
	c.api = "chat"
	m = &guardtest.Model{}
	c.at = offline(m)
	contains(t, drive(t, c, "and now?"), "2 previous turns", "> and now?\n")
	contains(t, string(m.Requests()[0].Body), "Wait.", `"tool_calls"`, "Alpha.", "and now?")
	if body := string(m.Requests()[0].Body); strings.Contains(body, "encrypted") {
		t.Errorf("sent is %s", body)
	}
	valid(t, m)
}

// The guard classifies the errors of the SDK.
func TestOpenAIErrors(t *testing.T) {
	tests := []struct {
		name   string
		answer guardtest.Answer
		kind   guard.Kind
	}{
		{"too long", guardtest.Fail(400, "invalid_request_error", "This model's maximum context length is 200000 tokens. However, your messages resulted in 215000 tokens. Please reduce the length of the messages."), guard.Tokens},
		{"too long in a stream", guardtest.FailAfter(1, "context_length_exceeded", "This model's maximum context length is 200000 tokens. However, your messages resulted in 215000 tokens.", guardtest.Say("never")), guard.Tokens},
		{"too large", guardtest.TooLarge(), guard.Bytes},
		{"too large for the proxy", guardtest.Page(413, "<html><body><h1>413 Request Entity Too Large</h1></body></html>"), guard.Bytes},
		{"overloaded", guardtest.Overloaded(), guard.NotOverflow},
		{"overloaded in a stream", guardtest.FailAfter(3, "server_error", "The engine is currently overloaded", guardtest.Say("never")), guard.NotOverflow},
		{"rate limit", guardtest.RateLimited(0), guard.NotOverflow},
		{"broken", guardtest.Broken(), guard.NotOverflow},
		{"key", guardtest.Unauthorized(), guard.NotOverflow},
		{"connection", guardtest.CutAfter(3, guardtest.Say("never")), guard.NotOverflow},
	}
	eachOpenAI(t, func(t *testing.T, api string) {
		for _, tt := range tests {
			m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
			// The user's text must not decide: the error holds the request.
			_, err := ask(t.Context(), open(t, api, m, nil), transcript.Request{
				Model: "scripted", Messages: []transcript.Message{transcript.UserText("prompt is too long: 9 tokens > 1 maximum")},
			})
			if err == nil {
				t.Fatalf("%s: no error", tt.name)
			}
			o := guard.Classify(err)
			if o.Kind != tt.kind {
				t.Errorf("%s: %q is %+v", tt.name, err, o)
			}
			if strings.HasPrefix(tt.name, "too long") && (o.Prompt != 215_000 || o.Limit != 200_000) {
				t.Errorf("%s: %q has the sizes %+v", tt.name, err, o)
			}
		}
	})
}

// A real refusal of the service, and the error that the application gets if
// nothing cures it.
func TestOpenAIOverflow(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{Window: 1000}
		c := testConfig(t, api, m)
		c.window = 0
		contains(t, drive(t, c, strings.Repeat("lorem ipsum ", 2000), "short"), "Error: ", "context")
		_, err := ask(t.Context(), open(t, api, m, nil), transcript.Request{Messages: []transcript.Message{transcript.UserText(strings.Repeat("lorem ipsum ", 2000))}, Model: "m"})
		refusal, ok := errors.AsType[*openai.Error](err)
		if !ok || refusal.StatusCode != 400 || refusal.Code != "context_length_exceeded" {
			t.Fatalf("the error is %v", err)
		}
		if o := guard.Classify(err); o.Kind != guard.Tokens || api == "chat" && (o.Limit != 1000 || o.Prompt <= 1000) {
			t.Errorf("%q is %+v", err, o)
		}
		valid(t, m)
	})
}
