package guardtest

import (
	"bytes"
	"fmt"
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
	if no == nil {
		no = judgeImages(e.request.Messages)
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

// judgeImages checks the sizes of images. They count as the base64 that they
// come in.
func judgeImages(messages []transcript.Message) *refusal {
	const most = 5 << 20
	check := func(b transcript.Block, at string, args ...any) *refusal {
		image, ok := b.(transcript.ImageBlock)
		if n := len(image.Source.Data); ok && n > most {
			return invalid("%s.image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", fmt.Sprintf(at, args...), n, most)
		}
		return nil
	}
	for i, m := range messages {
		for j, b := range m.Content {
			if no := check(b, "messages.%d.content.%d", i, j); no != nil {
				return no
			}
			res, _ := b.(transcript.ToolResultBlock)
			for k, c := range res.Content {
				if no := check(c, "messages.%d.content.%d.tool_result.content.%d", i, j, k); no != nil {
					return no
				}
			}
		}
	}
	return nil
}
