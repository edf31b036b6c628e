package httpclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
)

// A cutError is a failure of the connection.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

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
// twice as long each time.
func waitOf(n int, retryAfter string, limit time.Duration) time.Duration {
	d := time.Second << min(n-1, 16)
	d += rand.N(d / 4) // clients that failed together should not return together
	if seconds, err := strconv.ParseFloat(retryAfter, 64); err == nil && seconds >= 0 {
		d = time.Duration(min(seconds, 1e6) * float64(time.Second))
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		d = max(time.Until(at), 0)
	}
	return min(d, limit)
}

// wait reports false if ctx ends, or would end, before the wait is over.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
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
