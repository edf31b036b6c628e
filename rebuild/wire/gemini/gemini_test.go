package gemini_test

import (
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
