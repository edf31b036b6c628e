package serve

import (
	"sync"
	"time"

	"github.com/convolog/convolog/session"
)

// audit logs who has used a route that does something to whole sessions. What was done
// goes to the Audit of the store as well.
func (e endpoint) audit(q *Request, err error) {
	outcome := "done"
	if err != nil {
		outcome = problemOf(err).Code
	}
	if e.route.Audit == "" || outcome == errNotFound.Code { // any client can name sessions that do not exist
		return
	}
	e.sv.opts.Logger.Info("serve: audit", "action", e.route.Audit, "agent", q.PathValue("agent"), "session", q.PathValue("id"),
		"owner", q.Principal.Owner, "admin", q.Principal.Admin, "outcome", outcome)
}

// refusals reports requests without a known key and requests that the principal may not
// make: one a second, so that a guesser fills no log.
type refusals struct {
	mu   sync.Mutex // guards the fields below
	next time.Time
	left int // refusals without a report
}

func (r *refusals) report(q *Request, route Route, p *Problem) {
	if p != errWho && p != errForbidden {
		return
	}
	r.mu.Lock()
	now := time.Now()
	if now.Before(r.next) {
		r.left++
		r.mu.Unlock()
		return
	}
	left := r.left
	r.next, r.left = now.Add(time.Second), 0
	r.mu.Unlock()
	q.sv.opts.Logger.Warn("serve: refused", "method", route.Method, "route", route.Path, "code", p.Code,
		"owner", q.Principal.Owner, "address", q.RemoteAddr, "others", left)
	q.sv.store.Audit(q.Context(), session.Action{Name: "refuse", Owner: q.Principal.Owner, Err: p})
}
