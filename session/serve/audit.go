package serve

import (
	"sync"
	"time"
)

// refusals limits reports of requests without a known key, and of requests that the
// principal may not make. Only one a second is reported: guessing cannot fill the log.
type refusals struct {
	mu   sync.Mutex // guards the fields below
	next time.Time
	left int
}

// due reports whether to report a refusal at a time, and how many refusals went
// unreported since the last report.
func (r *refusals) due(now time.Time) (left int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		r.left++
		return 0, false
	}
	left, r.left, r.next = r.left, 0, now.Add(time.Second)
	return left, true
}
