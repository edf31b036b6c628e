package wiretest

import (
	"fmt"
	"net/http"
)

// Refusal is an error of a service.
type Refusal struct {
	Status   int
	Kind     string // the error type
	Param    string // what OpenAI says besides: the member it is about
	Code     string // and a code
	Text     string
	Overflow bool // for a prompt or a body that is too large
	Usual    bool // each provider has its own words for it
	// Violations are the rules that the request breaks; Text is that of the first.
	Violations []Violation
}

// The error types of the Messages API, which stand for those of all.
const (
	KindInvalid  = "invalid_request_error"
	KindTooLarge = "request_too_large"

	KindOverloaded   = "overloaded_error"
	KindRate         = "rate_limit_error"
	KindAPI          = "api_error"
	KindUnauthorized = "authentication_error"
)

// StatusOverloaded has no name in net/http.
const StatusOverloaded = 529

const textPayload = "Request payload size exceeds the limit: %d bytes." // of Gemini and Bedrock

// Invalid refuses a request for good.
func Invalid(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Kind: KindInvalid, Text: fmt.Sprintf(format, args...)}
}

// Violated refuses a request by what Decode found, nil if that is nothing.
func Violated(found []Violation) *Refusal {
	if len(found) == 0 {
		return nil
	}
	no := Invalid("%s", found[0].Text)
	no.Violations = found
	return no
}

func overflow(format string, args ...any) *Refusal {
	no := Invalid(format, args...)
	no.Overflow = true
	return no
}

// TooLarge refuses a body of too many bytes.
func TooLarge() *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Kind: KindTooLarge, Text: TextTooLarge, Usual: true, Overflow: true}
}

// TextTooLarge is what Anthropic says about a body of too many bytes.
const TextTooLarge = "Request exceeds the maximum size"

// words are what a provider calls errors: their kinds by the status of HTTP, and the
// texts of usual ones by the kind of the Messages API.
type words struct {
	kinds map[int]string
	texts map[string]string
}

// instead holds the statuses that a provider has in the place of others.
var instead = map[int]int{
	http.StatusRequestEntityTooLarge: http.StatusBadRequest, http.StatusMethodNotAllowed: http.StatusBadRequest,
	http.StatusPaymentRequired: http.StatusForbidden, http.StatusUnauthorized: http.StatusForbidden,
	http.StatusGatewayTimeout: http.StatusRequestTimeout, StatusOverloaded: http.StatusServiceUnavailable,
}

// say returns an error in these words. limit is the size that a body may have.
func (w words) say(no Refusal, limit int64) Refusal {
	switch text := w.texts[no.Kind]; {
	case no.Usual && no.Kind == KindTooLarge:
		no.Text = fmt.Sprintf(textPayload, limit)
	case no.Usual && text != "":
		no.Text = text
	}
	if w.kinds[no.Status] == "" {
		no.Status = instead[no.Status]
	}
	if w.kinds[no.Status] == "" {
		no.Status = http.StatusInternalServerError
	}
	no.Kind = w.kinds[no.Status]
	return no
}
