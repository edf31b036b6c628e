package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/genai"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

const geminiModel = "gemini-3-pro"

// everyGemini is a request with every kind of block.
func everyGemini(t *testing.T) transcript.Request {
	t.Helper()
	native := transcript.Origin{API: "gemini", Model: geminiModel}
	message := func(text string, o transcript.Origin) (m transcript.Message) {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		for range m.Content {
			m.Origins = append(m.Origins, o)
		}
		return m
	}
	return transcript.Request{
		Model: geminiModel, System: "<system> & \u2028", MaxOutput: 100,
		Tools: []transcript.Tool{{Name: "read", Description: "d", InputSchema: json.RawMessage(`{"type":"object","x-order":["a"],"properties":{"a":{"const":1.5}}}`)}},
		Messages: []transcript.Message{
			message(`{"role":"user","content":[{"type":"text","text":"<look> & \u2028"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"image","source":{"type":"url","url":"https://x.example/a.png"}},{"type":"document","title":"t","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"}}]}`, transcript.Origin{}),
			message(`{"role":"assistant","content":[{"type":"thinking","thinking":"Hm <"},{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"print(1)"}}},{"type":"gemini_part","part":{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}},{"type":"text","text":"so","ext":{"thoughtSignature":"c2ln"}},{"type":"tool_use","id":"a","name":"read","input":{"b":1.5,"a":[null,"<"]},"ext":{"thoughtSignature":"c2lnMQ==","functionCall":{"id":"a"}}},{"type":"tool_use","id":"b","name":"read","input":{}}]}`, native),
			message(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"one"},{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},{"type":"text","text":"hurry"}]}`, transcript.Origin{}),
		},
	}
}

// throughTypes decodes a rendered request into the SDK's types and encodes it
// back. The one text that they cannot hold replaces signatures: it is not
// base64, but passes as if it were.
func throughTypes(t *testing.T, body []byte) {
	t.Helper()
	var req struct {
		GenerationConfig  *genai.GenerateContentConfig `json:"generationConfig,omitempty"`
		SystemInstruction *genai.Content               `json:"systemInstruction,omitempty"`
		Tools             []*genai.Tool                `json:"tools,omitempty"`
		Contents          []*genai.Content             `json:"contents"`
	}
	body = bytes.ReplaceAll(body, []byte(`"skip_thought_signature_validator"`), []byte(`"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="`))
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	again, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := meaning(t, again), meaning(t, body); !reflect.DeepEqual(got, want) {
		t.Errorf("through the SDK's types it is\n%s\nwas\n%s", again, body)
	}
}

// meaning is the value of a JSON text, without the empty members that the types
// omit.
func meaning(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var prune func(v any) any
	prune = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				value = prune(value)
				if m, ok := value.(map[string]any); ok && len(m) == 0 || value == "" {
					delete(v, name)
				}
			}
		case []any:
			for i := range v {
				v[i] = prune(v[i])
			}
		}
		return v
	}
	return prune(v)
}

func TestGeminiRequestTypes(t *testing.T) {
	for _, req := range []transcript.Request{everyGemini(t), {Messages: everyGemini(t).Messages, Model: "gemini-4"}} {
		body, _, err := gemini.Format{Thinking: json.RawMessage(`{"includeThoughts":true,"thinkingBudget":100}`)}.Request(req)
		if err != nil {
			t.Fatal(err)
		}
		throughTypes(t, body)
	}
}

// The rendering of every transcript goes through the types.
func TestGeminiRandomTypes(t *testing.T) {
	var blocks []string
	for _, m := range everyGemini(t).Messages {
		for _, b := range m.Content {
			blocks = append(blocks, string(transcript.MarshalBlock(b)))
		}
	}
	blocks = append(blocks, `{"type":"audio"}`, `{"type":"text","text":" "}`, `{"type":"redacted_thinking","data":"d"}`, `{"type":"context","uri":"u"}`)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		fold := rebuild.New(nil)
		for n := range 8 {
			b := blocks[rnd.IntN(len(blocks))]
			line := []string{
				fmt.Sprintf(`{"type":"user","id":"e%d","content":[%s]}`, n, b),
				fmt.Sprintf(`{"type":"assistant","id":"e%d","api":"gemini","model":%q,"content":[%s]}`, n, geminiModel, b),
			}[rnd.IntN(2)]
			if n == 7 {
				line = `{"type":"user","id":"last","content":"and?"}`
			}
			e, err := transcript.ParseEntry([]byte(line))
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if err := fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}); err != nil {
				t.Fatal(err)
			}
		}
		body, _, err := gemini.Format{}.Request(transcript.Request{Model: geminiModel, Messages: fold.History().Messages})
		if err != nil {
			t.Fatal(err)
		}
		throughTypes(t, body)
	}
}

// A request goes through the SDK with every member as rendered.
func TestGeminiRequestBytes(t *testing.T) {
	m := &guardtest.Model{}
	a := open(t, "gemini", m, nil).(*geminiSDK)
	want, _, err := a.format.Request(everyGemini(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), a, everyGemini(t)); err != nil {
		t.Fatal(err)
	}
	if got := m.Requests()[0].Body; !reflect.DeepEqual(meaning(t, got), meaning(t, want)) {
		t.Errorf("sent is\n%s\nwant\n%s", got, want)
	}
	valid(t, m)
}

// An answer comes through the official client over a port unchanged, streamed
// and whole.
func TestGeminiAnswer(t *testing.T) {
	sign := func(s string) transcript.Extra {
		return transcript.Extra{"ext": json.RawMessage(`{"thoughtSignature":"` + s + `"}`)}
	}
	call := guardtest.Tool("read", `{"a":[1.5,"<"]}`)
	call.ID, call.Extra = "id1", transcript.Extra{"ext": json.RawMessage(`{"thoughtSignature":"c2lnMQ==","functionCall":{"id":"id1"}}`)}
	said := []transcript.Block{
		transcript.ThinkingBlock{Thinking: "Let me <see>."},
		transcript.TextBlock{Text: "A call & \u2028.", Extra: sign("c2ln")},
		transcript.RawBlock{JSON: json.RawMessage(`{"type":"gemini_part","part":{"executableCode":{"code":"1","language":"PYTHON"}}}`)},
		call,
	}
	m := &guardtest.Model{Answer: guardtest.Always(guardtest.Answer{Blocks: said, Usage: &transcript.Usage{Input: 5, Output: 7, CacheRead: 11}})}
	server := guardtest.NewServer(m)
	defer server.Close()
	s, err := openGemini(t.Context(), &endpoint{http: server.Client(), url: server.URL, key: "key"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := s.(*geminiSDK)
	streamed, err := ask(t.Context(), a, everyGemini(t))
	if err != nil {
		t.Fatal(err)
	}
	config, err := requestConfig(gemini.Format{Stream: true, Model: geminiModel}, everyGemini(t))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.sdk.Models.GenerateContent(t.Context(), geminiModel, nil, config)
	if err != nil {
		t.Fatal(err)
	}
	answer.SDKHTTPResponse = nil
	whole, err := a.format.Response(eventOf(answer))
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	for name, resp := range map[string]*transcript.Response{"streamed": streamed, "whole": whole} {
		got, err := json.Marshal(resp.Message.Content)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(meaning(t, got), meaning(t, want)) {
			t.Errorf("%s the answer is\n%s\nwant\n%s", name, got, want)
		}
		if u := resp.Usage; u.Input != 5 || u.Output != 7 || u.CacheRead != 11 || resp.StopReason != transcript.StopToolUse || resp.Model != geminiModel || resp.RequestID == "" {
			t.Errorf("%s the answer is %+v", name, resp)
		}
	}
	valid(t, m)
}

// The guard classifies the errors of the SDK.
func TestGeminiErrors(t *testing.T) {
	tests := []struct {
		name   string
		answer guardtest.Answer
		kind   guard.Kind
	}{
		{"too long", guardtest.Fail(400, "", "The input token count (215000) exceeds the maximum number of tokens allowed (200000)."), guard.Tokens},
		{"too long in a stream", guardtest.FailAfter(1, "invalid_request_error", "The input token count (215000) exceeds the maximum number of tokens allowed (200000).", guardtest.Say("never")), guard.Tokens},
		{"overloaded", guardtest.Overloaded(), guard.NotOverflow},
		{"quota", guardtest.RateLimited(0), guard.NotOverflow},
		{"broken", guardtest.Broken(), guard.NotOverflow},
		{"key", guardtest.Unauthorized(), guard.NotOverflow},
		{"output cap", guardtest.Fail(400, "", "Unable to submit request because it has a maxOutputTokens value of 167538 but the supported range is from 1 (inclusive) to 65537 (exclusive)."), guard.NotOverflow},
		{"connection", guardtest.CutAfter(3, guardtest.Say("never")), guard.NotOverflow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
			a := open(t, "gemini", m, nil).(*geminiSDK)
			_, err := ask(t.Context(), a, transcript.Request{Model: geminiModel, Messages: []transcript.Message{transcript.UserText("hi")}})
			if err == nil {
				t.Fatal("no error")
			}
			o := guard.Classify(err)
			if o.Kind != tt.kind || tt.kind == guard.Tokens && (o.Prompt != 215_000 || o.Limit != 200_000) {
				t.Errorf("%q is %+v", err, o)
			}
		})
	}
}
