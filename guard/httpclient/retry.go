package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
)

// A cutError is a failure of the connection.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

// broken are texts of failed connections. Package net/http exports no errors for them.
var broken = []string{"http2: ", "stream error: ", "server closed idle connection"}

// isCut reports whether a request failed because of the connection. Any other failure,
// for example an invalid URL or header or an unknown certificate, is permanent.
func isCut(err error) bool {
	if _, unknown := errors.AsType[*tls.CertificateVerificationError](err); unknown {
		return false
	}
	if e, ok := errors.AsType[*url.Error](err); ok && e.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Op != "remote error" && e.Op != "local error" // of TLS
	}
	return slices.ContainsFunc(broken, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// passing are the types of errors inside a stream that a later attempt may not meet.
var passing = []string{"api_error", "overloaded_error", "rate_limit_error", "server_error", "timeout_error"}

// passes reports whether another attempt may succeed after an error.
func passes(err error) bool {
	refusal, ok := errors.AsType[*wire.APIError](err)
	if !ok {
		_, cut := errors.AsType[*cutError](err)
		return cut
	}
	if refusal.Code == "insufficient_quota" || guard.Classify(refusal).Kind != guard.NotOverflow {
		return false
	}
	switch refusal.Status {
	case 0:
		return slices.Contains(passing, refusal.Type)
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return refusal.Status >= http.StatusInternalServerError
}

// waitOf returns the wait after attempt n: the time in the header Retry-After, or else
// twice as long each time, up to limit.
func waitOf(n int, retryAfter string, limit time.Duration) time.Duration {
	var asked time.Duration
	if seconds, err := strconv.ParseFloat(retryAfter, 64); err == nil && seconds > 0 {
		asked = time.Duration(min(seconds, 1e9) * float64(time.Second))
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		asked = time.Until(at)
	}
	if asked > 0 {
		return asked
	}
	own := time.Second << min(n-1, 16)
	own += rand.N(own / 4) // clients that failed together should not return together
	return min(own, limit)
}

// wait waits after attempt n. It reports false at once if the wait would exceed limit or
// outlast ctx, and false if ctx ends.
func wait(ctx context.Context, n int, retryAfter string, limit time.Duration) bool {
	d := waitOf(n, retryAfter, limit)
	if end, ok := ctx.Deadline(); d > limit || ok && time.Until(end) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
