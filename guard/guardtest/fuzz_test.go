package guardtest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
)

// Any body gets an answer that can be read or an error with a type and a
// message, and is recorded once.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[]", `"\ud800"`, body(""), body(`"stream":true`), body(`"max_tokens":1,"stream":true`),
		body(`"system":[{"type":"text","text":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]`),
		body(`"thinking":{"type":"enabled","budget_tokens":1024}`),
		body(`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]`),
		body(`"messages":[{"role":"user","content":[{"type":"image","source":{}},null,{"type":7}]}]`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m := &guardtest.Model{Window: 5000, MaxOutput: 4000}
		c := inProcess(m)
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			resp, err := c.send(t.Context(), path, in)
			noError(t, err)
			answer, err := io.ReadAll(resp.Body)
			noError(t, err)
			noError(t, resp.Body.Close())
			switch {
			case resp.StatusCode != http.StatusOK:
				e := wire.NewAPIError(resp.StatusCode, answer)
				if e.Type == "" || e.Message == "" || !json.Valid(answer) {
					t.Fatalf("status %d with %q", resp.StatusCode, answer)
				}
			case bytes.HasPrefix(answer, []byte("event: ")):
				s := wire.Anthropic{}.NewStream()
				noError(t, wire.ReadSSE(bytes.NewReader(answer), func(event []byte) error {
					_, err := s.Add(event)
					return err
				}))
				if s.Response().StopReason == "" {
					t.Fatalf("no stop reason in %s", answer)
				}
			case path == "/v1/messages":
				_, err := wire.Anthropic{}.Response(answer)
				noError(t, err)
			}
		}
		s := m.Stats()
		if s.Requests != 1 || s.Counts != 1 || s.Answered+s.Invalid+s.Overflows != 1 {
			t.Fatalf("counted %+v", s)
		}
	})
}
