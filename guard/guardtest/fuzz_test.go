package guardtest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// Any body gets on each path an answer that can be read or an error with a type
// and a message, and is recorded once.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[]", `"\ud800"`, body(""), body(`"stream":true`), body(`"max_tokens":1,"stream":true`),
		body(`"system":[{"type":"text","text":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]`),
		body(`"thinking":{"type":"enabled","budget_tokens":1024}`),
		body(`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]`),
		body(`"messages":[{"role":"user","content":[{"type":"image","source":{}},null,{"type":7}]}]`),
		`{"model":"m","messages":[null,{"role":"user","content":[null,{"type":7}]}]}`,
		`{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"tools":[7,{"type":"function"}]}`,
		`{"model":"m","input":"Hi","stream":true}`, `{"model":"m","input":[{"type":"reasoning","id":7},{"role":"user","content":[{"type":"input_image","image_url":{}}]}]}`,
		`{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":1}}`, `{"contents":[null,{"role":"user","parts":[7,{"functionResponse":{}}]}]}`,
		`{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"inferenceConfig":{"maxTokens":1}}`, `{"messages":[null,{"role":"user","content":[7,{"toolResult":{}}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	paths := []struct {
		path   string
		whole  func([]byte) (*transcript.Response, error)
		stream func() wire.Stream
	}{
		{"/v1/messages", anthropic.Format{}.Response, anthropic.Format{}.NewStream},
		{"/v1/chat/completions", openaichat.Format{}.Response, openaichat.Format{}.NewStream},
		{"/v1/responses", openairesponses.Format{}.Response, openairesponses.Format{}.NewStream},
		{"/v1beta/models/gemini-3-pro:generateContent", gemini.Format{}.Response, nil},
		{"/v1beta/models/gemini-3-pro:streamGenerateContent", nil, gemini.Format{}.NewStream},
		{"/model/m/converse", bedrock.Format{}.Response, nil},
		{"/model/m/converse-stream", nil, nil},
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m := &guardtest.Model{Window: 5000, MaxOutput: 4000}
		c := inProcess(m)
		for _, p := range paths {
			resp, err := c.send(t.Context(), p.path, in)
			require.NoError(t, err)
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
			got := &transcript.Response{StopReason: transcript.StopEndTurn}
			switch {
			case resp.StatusCode != http.StatusOK:
				e := wire.NewAPIError(resp.StatusCode, answer)
				if cmp.Or(e.Type, resp.Header.Get("X-Amzn-Errortype")) == "" || e.Message == "" || !json.Valid(answer) {
					t.Fatalf("%s: status %d with %q", p.path, resp.StatusCode, answer)
				}
			case kind == "text/event-stream":
				s := p.stream()
				err = wire.ReadSSE(bytes.NewReader(answer), func(event []byte) error {
					_, err := s.Add(event)
					return err
				})
				got = s.Response()
			case kind == "application/vnd.amazon.eventstream":
				s := bedrock.Format{}.NewStream()
				err = readFrames(answer, s)
				got = s.Response()
			case p.whole != nil:
				got, err = p.whole(answer)
			}
			if err != nil || got.StopReason == "" || got.StopReason == transcript.StopAborted {
				t.Fatalf("%s: %v, %v of %s", p.path, got, err, answer)
			}
		}
		s := m.Stats()
		require.Equal(t, len(paths), s.Requests)
		require.Equal(t, s.Requests, s.Answered+s.Invalid+s.Overflows)
	})
}
