package guardtest

import (
	"net/http"

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
	// whole returns an answer that is not streamed.
	whole(a message) []byte
	// events returns an answer as a stream.
	events(a message) []event
	// isInput reports whether an event adds to the input of a call.
	isInput(e event) bool
	// words returns how the provider says what this package calls kind; ok is
	// false if it has no words of its own.
	words(kind string) (no refusal, ok bool)
	// refuse returns the body of an error.
	refuse(no *refusal, requestID string) []byte
	// fail returns the event that ends a stream with an error.
	fail(no *refusal, a message, requestID string) event
	// idHeader is the name of the header for the ID of a request.
	idHeader() string
}

// apis holds the API of each path that answers messages.
var apis = map[string]api{
	pathMessages:  anthropic{},
	pathChat:      openAIChat{},
	pathResponses: openAIResponses{},
}

// anthropic is the Messages API.
type anthropic struct{}

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

func (anthropic) isInput(e event) bool { return isInput(e) }

func (anthropic) words(string) (refusal, bool) { return refusal{}, false }

func (anthropic) refuse(no *refusal, requestID string) []byte {
	return errorJSON(no.kind, no.text, requestID)
}

func (anthropic) fail(no *refusal, _ message, requestID string) event {
	return event{"error", errorJSON(no.kind, no.text, requestID)}
}

func (anthropic) idHeader() string { return "Request-Id" }
