package wiretest

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Refusal is an error of a service.
type Refusal struct {
	Status   int
	Kind     string // the error type
	Param    string // OpenAI's name of the wrong member
	Code     string // OpenAI's code
	Text     string
	Overflow bool // for a prompt or a body that is too large
	Usual    bool // the words differ by provider
}

// The error types of the Messages API, which represent the types of all APIs.
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

// Invalid refuses a request for good.
func Invalid(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Kind: KindInvalid, Text: fmt.Sprintf(format, args...)}
}

// TooLarge refuses a body of too many bytes.
func TooLarge() *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Kind: KindTooLarge, Text: "Request exceeds the maximum size", Usual: true, Overflow: true}
}

// Form is the form that all answers of an API share.
type Form struct {
	MaxBody       int64  // most bytes of the body of a request
	Whole, Stream string // content types of whole and streamed answers
	Signs         bool   // requests repeat signed reasoning
	Says          string // prefix of refusals by the model
	requestID     string // header that names a request
	errorType     string // header that names the kind of an error
	// The provider's own words for usual errors, by the kind of the Messages API.
	usual map[string]Refusal
	kinds map[int]string // of errors by status, if only these exist
	// Refusals of a request beyond the model's window, with the names of numbers in
	// braces: the output limit is too large, the prompt is too long, or their sum is.
	tooMuch, tooLong, noRoom Refusal
}

const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream; charset=utf-8"
)

// Fit refuses a valid request beyond the model's window.
func (f Form) Fit(l Limits, prompt, output int) *Refusal {
	var no Refusal
	tooMuch := l.MaxOutput > 0 && output > l.MaxOutput
	switch {
	case tooMuch:
		no = f.tooMuch
	case l.Window > 0 && prompt > l.Window:
		no = f.tooLong
	case l.Window > 0 && l.ReserveOutput && output > l.Window-prompt:
		no = f.noRoom
	}
	if no.Text == "" {
		return nil
	}
	n := strconv.Itoa
	no.Status, no.Kind, no.Overflow = http.StatusBadRequest, KindInvalid, !tooMuch
	no.Text = strings.NewReplacer("{prompt}", n(prompt), "{output}", n(output), "{sum}", n(prompt+output), "{model}", l.Model,
		"{window}", n(l.Window), "{max}", n(l.MaxOutput), "{end}", n(l.MaxOutput+1)).Replace(no.Text)
	return &no
}

// Head sets the headers of an answer; no is nil or an error.
func (f Form) Head(h http.Header, no *Refusal, requestID string) {
	if f.requestID != "" {
		h.Set(f.requestID, requestID)
	}
	if f.errorType != "" && no != nil {
		h.Set(f.errorType, no.Kind)
	}
}

// instead holds the statuses that a provider uses in place of others.
var instead = map[int]int{
	http.StatusRequestEntityTooLarge: http.StatusBadRequest, http.StatusMethodNotAllowed: http.StatusBadRequest,
	http.StatusPaymentRequired: http.StatusForbidden, http.StatusUnauthorized: http.StatusForbidden,
	http.StatusGatewayTimeout: http.StatusRequestTimeout, StatusOverloaded: http.StatusServiceUnavailable,
}

// Word gives an error the provider's form: its status, its kind, and its words if
// the error is a usual one. limit is the greatest size of a body.
func (f Form) Word(no Refusal, limit int64) Refusal {
	if said, ok := f.usual[no.Kind]; ok && no.Usual {
		no.Status, no.Kind, no.Code, no.Text = cmp.Or(said.Status, no.Status), cmp.Or(said.Kind, no.Kind), said.Code, said.Text
	}
	if f.kinds == nil {
		return no
	}
	if no.Usual && no.Kind == KindTooLarge {
		no.Text = fmt.Sprintf("Request payload size exceeds the limit: %d bytes.", limit)
	}
	for _, status := range []int{no.Status, instead[no.Status], http.StatusInternalServerError} {
		if kind := f.kinds[status]; kind != "" {
			no.Status, no.Kind = status, kind
			break
		}
	}
	return no
}
