package guardtest

import (
	"bytes"
	"net/http"

	"github.com/convolog/convolog/transcript"
)

// anthropic is the Messages API.
type anthropic struct{ sse }

func (anthropic) decode(m *Model, header http.Header, body []byte, counting bool) (transcript.Request, bool, *refusal) {
	if header.Get("Anthropic-Version") == "" {
		return transcript.Request{}, false, invalid("anthropic-version: header is required")
	}
	e, no := decode(body, counting)
	if no == nil {
		no = m.judge(e)
	}
	return e.request, e.stream, no
}

func (anthropic) judgeSize(m *Model, req Request) *refusal { return m.judgeSize(req) }

func (anthropic) whole(a message) []byte { return a.json() }

func (anthropic) events(a message) []event { return a.events() }

func (anthropic) isInput(e event) bool {
	return e.name == "content_block_delta" && bytes.Contains(e.data, []byte(`"type":"`+kindInput))
}

func (anthropic) word(no refusal, _ int64) refusal { return no }

func (anthropic) refuse(no *refusal, requestID string) []byte {
	return errorJSON(no.kind, no.text, requestID)
}

func (anthropic) fail(no *refusal, _ message, requestID string) event {
	return event{"error", errorJSON(no.kind, no.text, requestID)}
}

func (anthropic) head(h http.Header, _ *refusal, requestID string) { h.Set("Request-Id", requestID) }
