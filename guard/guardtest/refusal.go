package guardtest

import (
	"fmt"
	"net/http"

	"github.com/convolog/convolog/rebuild"
)

// A refusal is an error of the service.
type refusal struct {
	status     int
	kind       string // the error type
	param      string // what OpenAI says besides: the member it is about
	code       string // and a code
	text       string
	outcome    Outcome
	violations []rebuild.Violation
	usual      bool // each provider has its own words for it
}

const (
	kindInvalid  = "invalid_request_error"
	kindTooLarge = "request_too_large"
	// Of usual errors:
	kindOverloaded   = "overloaded_error"
	kindRate         = "rate_limit_error"
	kindAPI          = "api_error"
	kindUnauthorized = "authentication_error"

	textTooLarge = "Request exceeds the maximum size"
	textPayload  = "Request payload size exceeds the limit: %d bytes." // of Gemini and Bedrock
)

func invalid(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: kindInvalid, text: fmt.Sprintf(format, args...), outcome: Invalid}
}

func overflow(format string, args ...any) *refusal {
	no := invalid(format, args...)
	no.outcome = Overflow
	return no
}

// errorJSON returns the body of an error. That of a body that is too large
// comes from a proxy of the provider and has no more than this.
func errorJSON(kind, text, requestID string) []byte {
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if kind == kindTooLarge {
		return encode(struct {
			Error detail `json:"error"`
		}{detail{kind, text}})
	}
	return encode(struct {
		Type      string `json:"type"`
		Error     detail `json:"error"`
		RequestID string `json:"request_id,omitempty"`
	}{"error", detail{kind, text}, requestID})
}
