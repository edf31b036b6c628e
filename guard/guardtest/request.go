package guardtest

import (
	"net/http"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Request is a request as the model sees it. The recording shares it, so nothing in it
// may be changed.
type Request struct {
	transcript.Request
	// N counts the requests for a message to one Model, from 1, including refused ones.
	N int
	// Stream is set if the client wants server-sent events.
	Stream bool
	// Tokens is the size of the prompt. It is 0 in the recording of a request
	// that was refused before it was counted.
	Tokens int
	// Body is the body as sent, or nil if it was too large.
	Body []byte
	// Host is the host that the request was sent to.
	Host string
	// Header is the header as sent.
	Header http.Header
}

// UserText returns the text of the last message if it is a user message. A message with
// results alone has an empty text.
func (r Request) UserText() string { return r.last().Text() }

// Results returns the results of tools in the last message.
func (r Request) Results() (results []transcript.ToolResultBlock) {
	for _, b := range r.last().Content {
		if res, ok := b.(transcript.ToolResultBlock); ok {
			results = append(results, res)
		}
	}
	return results
}

// last returns the last message if it is a user message. System messages may follow it.
func (r Request) last() (m transcript.Message) {
	for _, last := range slices.Backward(r.Messages) {
		switch last.Role {
		case transcript.RoleUser:
			return last
		case transcript.RoleAssistant:
			return m
		}
	}
	return m
}
