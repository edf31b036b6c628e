package guardtest

import (
	"fmt"
	"net/http"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// An api is the form that a provider gives to requests and answers.
type api interface {
	// decode reads the body of a request and judges what it says. What could be
	// read of one that is refused is returned too. counting says that it only
	// asks for a count.
	decode(m *Model, header http.Header, body []byte, counting bool) (req transcript.Request, stream bool, no *refusal)
	// judgeSize judges a valid request by the model's limits.
	judgeSize(m *Model, req Request) *refusal
	// maxBody is the size in bytes that a body may have.
	maxBody() int64
	// whole returns an answer that is not streamed.
	whole(a message) []byte
	// events returns an answer as a stream.
	events(a message) []event
	// isInput reports whether an event adds to the input of a call.
	isInput(e event) bool
	// frame returns an event as it goes out.
	frame(e event) []byte
	// types returns the content types of an answer that is not streamed and of
	// one that is.
	types() (whole, stream string)
	// word says an error as the provider does: with its status and its kind, and
	// in its words if it is a usual one. limit is the size that a body may have.
	word(no refusal, limit int64) refusal
	// refuse returns the body of an error.
	refuse(no *refusal, requestID string) []byte
	// fail returns the event that ends a stream with an error.
	fail(no *refusal, a message, requestID string) event
	// head sets the headers of an answer; no is nil if it is no error.
	head(h http.Header, no *refusal, requestID string)
}

// apiOf returns the API of a path that answers messages, nil if there is none.
func apiOf(path string) api {
	switch path {
	case pathMessages:
		return anthropic{}
	case pathChat:
		return openAIChat{}
	case pathResponses:
		return openAIResponses{}
	}
	if m := pathGemini.FindStringSubmatch(path); m != nil {
		return gemini{model: m[1], stream: m[2] == "streamGenerateContent"}
	}
	if m := pathBedrock.FindStringSubmatch(path); m != nil {
		return bedrock{model: m[1], stream: m[2] != ""}
	}
	return nil
}

// violated refuses a request by what its validator found, nil if that is
// nothing.
func violated(found []rebuild.Violation) *refusal {
	if len(found) == 0 {
		return nil
	}
	no := invalid("%s", found[0].Text)
	no.violations = found
	return no
}

// sse is what the APIs have in common that stream server-sent events.
type sse struct{}

func (sse) frame(e event) []byte {
	if e.name == "" {
		return fmt.Appendf(nil, "data: %s\n\n", e.data)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.name, e.data)
}

func (sse) types() (whole, stream string) { return typeJSON, "text/event-stream; charset=utf-8" }

func (sse) maxBody() int64 { return 32 << 20 }

const typeJSON = "application/json"
