package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

func TestRequestErrors(t *testing.T) {
	param := func(name, value string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(value)}
	}
	for _, tt := range []struct {
		wire renderer
		req  transcript.Request
		want string
	}{
		{anthropic.Format{}, transcript.Request{Messages: []transcript.Message{{Role: "system"}}}, `wire: message 0 has role "system", want "user" or "assistant"`},
		{anthropic.Format{Thinking: json.RawMessage(`"on"`)}, transcript.Request{}, `wire: thinking "\"on\"" is not a JSON object`},
		{anthropic.Format{Thinking: json.RawMessage(`{}`)}, transcript.Request{}, `wire: thinking "{}" has no type`},
		{anthropic.Format{Params: map[string]json.RawMessage{"model": nil}}, transcript.Request{}, `wire: params: "model" is written from the request`},
		{anthropic.Format{Params: param("top_p", `.1`)}, transcript.Request{}, `wire: params: "top_p" is not valid JSON: ".1"`},
		{bedrock.Format{}, transcript.Request{Messages: []transcript.Message{{Role: "system"}}}, `wire: message 0 has role "system", want "user" or "assistant"`},
		{bedrock.Format{Thinking: json.RawMessage(`1`)}, transcript.Request{}, `wire: thinking "1" is not a JSON object`},
		{bedrock.Format{Params: param("messages", "[]")}, transcript.Request{}, `wire: params: "messages" is written from the request`},
		{bedrock.Format{Params: param("requestMetadata", "{")}, transcript.Request{}, `wire: params: "requestMetadata" is not valid JSON: "{"`},
		{bedrock.Format{Params: param("inferenceConfig", `{"maxTokens":1}`)}, transcript.Request{MaxOutput: 5}, `wire: params: inferenceConfig: "maxTokens" is written from the request`},
		{bedrock.Format{}, transcript.Request{Tools: []transcript.Tool{{Name: "a.b"}, {Name: "a_b"}}}, `wire: tools "a.b" and "a_b" are both called "a_b": rename one`},
		{gemini.Format{}, transcript.Request{Messages: []transcript.Message{{Role: "system"}}}, `wire: message 0 has role "system", want "user" or "assistant"`},
		{gemini.Format{Thinking: json.RawMessage(`1`)}, transcript.Request{}, `wire: thinking "1" is not a JSON object`},
		{gemini.Format{Params: param("contents", "[]")}, transcript.Request{}, `wire: params: "contents" is written from the request`},
		{gemini.Format{Params: param("labels", "{")}, transcript.Request{}, `wire: params: "labels" is not valid JSON: "{"`},
		{gemini.Format{Params: param("generationConfig", "1")}, transcript.Request{}, `wire: params: "generationConfig" is not a JSON object: "1"`},
		{gemini.Format{Params: param("generationConfig", `{"maxOutputTokens":1}`)}, transcript.Request{MaxOutput: 5}, `wire: params: generationConfig: "maxOutputTokens" is written from the request`},
		{gemini.Format{}, transcript.Request{Tools: []transcript.Tool{{Name: "a.b"}, {Name: "a_b"}}}, `wire: tools "a.b" and "a_b" are both called "a_b": rename one`},
	} {
		if body, _, err := tt.wire.Request(tt.req); err == nil || err.Error() != tt.want || body != nil {
			t.Errorf("body %s, error %v, want %s", body, err, tt.want)
		}
	}
}

func TestResponseErrors(t *testing.T) {
	for _, tt := range []struct {
		read       func([]byte) (*transcript.Response, error)
		body, want string
	}{
		{anthropic.Format{}.Response, ``, `wire: the answer is not a JSON object: ""`},
		{anthropic.Format{}.Response, `<html>502 Bad Gateway</html>`, `wire: the answer is not a JSON object: "<html>502 Bad Gateway</html>"`},
		{anthropic.Format{}.Response, `[]`, `wire: the answer is not a JSON object: "[]"`},
		{anthropic.Format{}.Response, `{"content":"hi"}`, `wire: the answer lacks a list of content: "{\"content\":\"hi\"}"`},
		{anthropic.Format{}.Response, `{"content":[1]}`, `wire: the answer has content that is not a block: "1"`},
		{anthropic.Format{}.Response, `{"content":[],"role":"user"}`, `wire: the answer has role "user"`},
		{anthropic.Format{}.Response, `{"content":[],"usage":3}`, `wire: the answer's usage is not an object: "3"`},
		{anthropic.Format{}.Response, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, `wire: overloaded_error: Overloaded (request req_1)`},
		{anthropic.Format{}.Response, `{"error":{"message":"no credit"}}`, `wire: no credit`},
		{gemini.Format{}.Response, ``, `wire: the answer is not a JSON object: ""`},
		{gemini.Format{}.Response, `<html>`, `wire: the answer is not a JSON object: "<html>"`},
		{gemini.Format{}.Response, `{}`, `wire: the answer lacks candidates: "{}"`},
		{gemini.Format{}.Response, `{"candidates":7}`, `wire: the answer's candidates are not a list: "7"`},
		{gemini.Format{}.Response, `{"candidates":[7]}`, `wire: a candidate of the answer is not an object: "7"`},
		{gemini.Format{}.Response, `{"candidates":[{"content":[]}]}`, `wire: the answer's content is not an object: "[]"`},
		{gemini.Format{}.Response, `{"candidates":[{"content":{"parts":[7]}}]}`, `wire: a part of the answer is not an object: "7"`},
		{gemini.Format{}.Response, `{"candidates":[{"content":{"role":"user"}}]}`, `wire: the answer has role "user"`},
		{gemini.Format{}.Response, `{"candidates":[],"usageMetadata":3}`, `wire: the answer's usage is not an object: "3"`},
		{gemini.Format{}.Response, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, `wire: status 503 UNAVAILABLE: The model is overloaded.`},
	} {
		if resp, err := tt.read([]byte(tt.body)); resp != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.body, err, tt.want)
		}
	}
}
