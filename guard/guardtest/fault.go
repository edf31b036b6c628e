package guardtest

import (
	"cmp"
	"net/http"
	"time"

	"github.com/convolog/convolog/internal/wiretest"
)

// A fault is a defect of an answer.
type fault struct {
	kind       faultKind
	after      int              // after this number of events of the stream
	no         wiretest.Refusal // for an error or a body
	retryAfter time.Duration
	body       string // sent unchanged
}

type faultKind int

const (
	faultNone     faultKind = iota
	faultError              // an error instead of the answer
	faultBody               // a body instead of the answer
	faultEvent              // an error event in the stream
	faultStall              // the rest never comes
	faultCut                // the connection breaks within the next event
	faultCutInput           // it breaks within the input of a call
	faultEnd                // the body ends
)

// Fail returns an error of the service: a status, an error type such as
// "overloaded_error", and a message. Gemini and Bedrock report their own status and
// type for that status.
func Fail(status int, errorType, message string) Answer {
	return Answer{fault: fault{kind: faultError, no: wiretest.Refusal{Status: status, Kind: errorType, Text: message}}}
}

// usual returns an error common to all providers, in the words of Anthropic.
func usual(kind, message string) Answer {
	a := Fail(statusOf[kind], kind, message)
	a.fault.no.Usual = true
	return a
}

// Overloaded fails with status 529, or 503 for providers other than Anthropic.
func Overloaded() Answer { return usual(wiretest.KindOverloaded, "Overloaded") }

// RateLimited fails with status 429 and reports the time to the next attempt in whole
// seconds, rounded up. 0 leaves the time out.
func RateLimited(retryAfter time.Duration) Answer {
	a := usual(wiretest.KindRate, "This request would exceed your account's rate limit. Please try again later.")
	a.fault.retryAfter = retryAfter
	return a
}

// Broken fails with status 500.
func Broken() Answer { return usual(wiretest.KindAPI, "Internal server error") }

// Unauthorized fails with status 401.
func Unauthorized() Answer { return usual(wiretest.KindUnauthorized, "invalid x-api-key") }

// TooLarge fails with status 413, as if the body had too many bytes.
func TooLarge() Answer { return Answer{fault: fault{kind: faultError, no: *wiretest.TooLarge()}} }

// Page answers with a status and an HTML page, like a proxy that fails or refuses a
// large body.
func Page(status int, html string) Answer {
	return Answer{fault: fault{kind: faultBody, no: wiretest.Refusal{Status: status}, body: html}}
}

// StallAfter sends n events of a stream and then nothing, until the client disconnects
// or the server is closed. It counts message_start and ping as events. If n is 0 or the
// answer is not streamed, nothing of it is sent.
func StallAfter(n int, a Answer) Answer { return a.with(fault{kind: faultStall, after: n}) }

// CutAfter breaks the connection after n events of a stream and half of the next one,
// or after all events if there are fewer. An answer that is not streamed breaks in the
// middle.
func CutAfter(n int, a Answer) Answer { return a.with(fault{kind: faultCut, after: n}) }

// CutInput breaks the connection in the middle of the input of the first call. An
// answer that is not streamed breaks in the middle. So does a stream without calls,
// without inputs, or with inputs that come whole, as Gemini's do.
func CutInput(a Answer) Answer { return a.with(fault{kind: faultCutInput}) }

// EndAfter ends the body after n events of a stream as if it were complete: the
// client sees no error of the connection. An answer that is not streamed ends
// in the middle.
func EndAfter(n int, a Answer) Answer { return a.with(fault{kind: faultEnd, after: n}) }

// FailAfter puts an error event into a stream after n events, and ends the stream. An
// answer that is not streamed fails with the status of that error type.
func FailAfter(n int, errorType, message string, a Answer) Answer {
	status := cmp.Or(statusOf[errorType], http.StatusInternalServerError)
	return a.with(fault{kind: faultEvent, after: n, no: wiretest.Refusal{Status: status, Kind: errorType, Text: message}})
}

func (a Answer) with(f fault) Answer {
	a.fault = f
	return a
}

var statusOf = map[string]int{
	wiretest.KindInvalid:      http.StatusBadRequest,
	wiretest.KindUnauthorized: http.StatusUnauthorized,
	"billing_error":           http.StatusPaymentRequired,
	"permission_error":        http.StatusForbidden,
	"not_found_error":         http.StatusNotFound,
	wiretest.KindTooLarge:     http.StatusRequestEntityTooLarge,
	wiretest.KindRate:         http.StatusTooManyRequests,
	wiretest.KindAPI:          http.StatusInternalServerError,
	"timeout_error":           http.StatusGatewayTimeout,
	wiretest.KindOverloaded:   wiretest.StatusOverloaded,
}
