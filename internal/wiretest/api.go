package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/convolog/convolog/transcript"
)

// An API is the form that a provider gives to requests and answers: [Anthropic],
// [OpenAIChat], [OpenAIResponses], [Gemini] and [Bedrock].
type API interface {
	// Decode reads and judges the body of a request. It returns every violation,
	// those in messages in their order; none means that the provider will accept
	// the body. Of a refused request it returns the readable part.
	Decode(body []byte) (Request, []Violation)
	// Whole returns an answer that is not streamed.
	Whole(a Message) []byte
	// Events returns an answer as a stream.
	Events(a Message) []Event
	// Refuse returns the body of an error.
	Refuse(no *Refusal, requestID string) []byte
	// Fail returns the event that ends a stream with an error.
	Fail(no *Refusal, a Message, requestID string) Event
	// Form returns the common form of all answers.
	Form() Form
}

// The paths that contain the model: of the Gemini API and Vertex, and of
// Converse.
var (
	pathGemini  = regexp.MustCompile(`/models/([^/:]+):(generateContent|streamGenerateContent)$`)
	pathVertex  = regexp.MustCompile(`/models/(claude[^/:]+):(rawPredict|streamRawPredict)$`)
	pathBedrock = regexp.MustCompile(`^/model/(.+)/converse(-stream)?$`)
)

// At returns the API that takes requests at a path, or nil.
func At(path string) API {
	switch path {
	case "/v1/messages":
		return Anthropic{}
	case "/v1/chat/completions":
		return OpenAIChat{asSent: true}
	case "/v1/responses":
		return OpenAIResponses{}
	}
	if m := pathVertex.FindStringSubmatch(path); m != nil {
		return Anthropic{Model: m[1]}
	}
	if m := pathGemini.FindStringSubmatch(path); m != nil {
		return Gemini{Model: m[1], Stream: m[2] == "streamGenerateContent"}
	}
	if m := pathBedrock.FindStringSubmatch(path); m != nil {
		return Bedrock{Model: m[1], Stream: m[2] != ""}
	}
	return nil
}

// Check returns the violations in the body of a request to an API.
func Check(a API, body []byte) []Violation {
	_, found := a.Decode(body)
	return found
}

// Limits are the limits of a model; 0 means unlimited.
type Limits struct {
	Model             string
	Window, MaxOutput int // tokens
	// ReserveOutput is set if prompt and output limit must fit together.
	ReserveOutput bool
}

// Message is an answer to send.
type Message struct {
	ID      int
	Model   string
	Content []transcript.Block
	Stop    transcript.StopReason
	Usage   transcript.Usage
}

// Event is an event of a stream.
type Event struct {
	Data  []byte // as sent
	Input bool   // it adds to the input of a call
}

// sse returns a server-sent event. Some APIs give it no name.
func sse(name string, data []byte) []byte {
	if name == "" {
		return fmt.Appendf(nil, "data: %s\n\n", data)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

// encode returns the JSON of a value that cannot fail, with <, > and & unescaped.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return encode(fmt.Sprintf("wiretest: %v", err))
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
