package gemini_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

func TestStop(t *testing.T) {
	for body, want := range map[string]transcript.StopReason{
		`{"candidates":[{"finishReason":"MAX_TOKENS"}]}`:              transcript.StopMaxTokens,
		`{"candidates":[{"finishReason":"SAFETY"}]}`:                  transcript.StopRefusal,
		`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`: "MALFORMED_FUNCTION_CALL",
		`{"candidates":[{}]}`:                                         transcript.StopEndTurn,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`:                 transcript.StopRefusal,
	} {
		resp, err := gemini.Format{}.Response([]byte(body))
		if err != nil || resp.StopReason != want {
			t.Errorf("%s: %v, %v", body, resp, err)
		}
	}
}

func TestResponseErrors(t *testing.T) {
	tests := []struct{ body, want string }{
		{``, `wire: the answer is not a JSON object: ""`},
		{`<html>`, `wire: the answer is not a JSON object: "<html>"`},
		{`{}`, `wire: the answer lacks candidates: "{}"`},
		{`{"candidates":7}`, `wire: the answer's candidates are not a list: "7"`},
		{`{"candidates":[7]}`, `wire: a candidate of the answer is not an object: "7"`},
		{`{"candidates":[{"content":[]}]}`, `wire: the answer's content is not an object: "[]"`},
		{`{"candidates":[{"content":{"parts":[7]}}]}`, `wire: a part of the answer is not an object: "7"`},
		{`{"candidates":[{"content":{"role":"user"}}]}`, `wire: the answer has role "user"`},
		{`{"candidates":[],"usageMetadata":3}`, `wire: the answer's usage is not an object: "3"`},
		{`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, `wire: status 503 UNAVAILABLE: The model is overloaded.`},
	}
	for _, tt := range tests {
		resp, err := gemini.Format{}.Response([]byte(tt.body))
		if resp != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.body, err, tt.want)
		}
	}
}

func TestStreamError(t *testing.T) {
	s := gemini.Format{}.NewStream()
	if _, err := s.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}`)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Add([]byte(`{"error":{"code":500,"message":"Internal error","status":"INTERNAL"}}`))
	var apiErr *wire.APIError
	require.True(t, errors.As(err, &apiErr))
	require.Equal(t, "INTERNAL", apiErr.Type)
	require.Equal(t, 500, apiErr.Status)
	resp := s.Response()
	require.Equal(t, transcript.StopError, resp.StopReason)
	require.Equal(t, "Hel", resp.Message.Text())
	for _, bad := range []string{`x`, `{"candidates":[{"finishReason":"STOP"}]}`} {
		_, _ = s.Add([]byte(bad))
	}
	_, err = s.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"more"}]}}]}`))
	require.Error(t, err, "content after the end is taken")
}

// Counts are cumulative: the last ones count.
func TestStreamUsage(t *testing.T) {
	s := gemini.Format{}.NewStream()
	for _, e := range []string{
		`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1,"thoughtsTokenCount":null}}`,
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":2}}`,
		`{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4,"cachedContentTokenCount":5,"thoughtsTokenCount":null}}`,
	} {
		_, err := s.Add([]byte(e))
		require.NoError(t, err)
	}
	if u := s.Response().Usage; u.Input != 4 || u.CacheRead != 5 || u.Output != 6 || len(u.Extra) > 0 {
		t.Errorf("usage = %+v", u)
	}
}

func TestRequestErrors(t *testing.T) {
	param := func(name, value string) gemini.Format {
		return gemini.Format{Params: map[string]json.RawMessage{name: json.RawMessage(value)}}
	}
	tests := []struct {
		wire gemini.Format
		req  transcript.Request
		want string
	}{
		{gemini.Format{}, transcript.Request{Messages: []transcript.Message{{Role: "system"}}}, `wire: message 0 has role "system", want "user" or "assistant"`},
		{gemini.Format{Thinking: json.RawMessage(`1`)}, transcript.Request{}, `wire: thinking "1" is not a JSON object`},
		{param("contents", "[]"), transcript.Request{}, `wire: params: "contents" is written from the request`},
		{param("labels", "{"), transcript.Request{}, `wire: params: "labels" is not valid JSON: "{"`},
		{param("generationConfig", "1"), transcript.Request{}, `wire: params: "generationConfig" is not a JSON object: "1"`},
		{param("generationConfig", `{"maxOutputTokens":1}`), transcript.Request{MaxOutput: 5}, `wire: params: generationConfig: "maxOutputTokens" is written from the request`},
		{gemini.Format{}, transcript.Request{Tools: []transcript.Tool{{Name: "a.b"}, {Name: "a_b"}}}, `wire: tools "a.b" and "a_b" are both called "a_b": rename one`},
	}
	for _, tt := range tests {
		if body, _, err := tt.wire.Request(tt.req); err == nil || err.Error() != tt.want || body != nil {
			t.Errorf("body %s, error %v, want %s", body, err, tt.want)
		}
	}
}

func TestPath(t *testing.T) {
	for _, tt := range []struct {
		g           gemini.Format
		model, want string
	}{
		{gemini.Format{}, "gemini-3-pro", "models/gemini-3-pro:generateContent"},
		{gemini.Format{Stream: true}, "tunedModels/x", "tunedModels/x:streamGenerateContent?alt=sse"},
	} {
		if got := tt.g.Path(tt.model); got != tt.want {
			t.Errorf("path = %s, want %s", got, tt.want)
		}
	}
}
