package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
)

// An endpoint answers the requests of a route.
type endpoint struct {
	sv    *Server
	route Route
	fail  func(*Request, *Problem)
}

// ServeHTTP answers a request. A path without a route gets 404.
func (sv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), always)
	if r.Body != nil && r.Body != http.NoBody {
		// Even a body that no route reads may come slowly.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(sv.opts.Patience))
	}
	if sv.preflight(w, r) {
		return
	}
	cut := &writer{ResponseWriter: w, patience: sv.opts.Patience}
	q := &Request{Request: r, Memory: sv.opts.Memory, Writer: cut, Began: time.Now(), w: cut, sv: sv}
	sv.mux.ServeHTTP(lookup{q}, r)
	if q.found {
		return
	}
	err := errNoRoute
	if allow := q.unknown.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		err = errMethod
	}
	endpoint{sv: sv, route: Route{Path: "none"}}.refuse(q, err)
}

// always are the headers of all answers.
var always = http.Header{
	"Cache-Control":           {"no-store"},
	"X-Content-Type-Options":  {"nosniff"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
}

// A lookup is a ResponseWriter that finds the route of a request. If no route matches,
// net/http answers to the lookup, which keeps the headers and drops the rest.
type lookup struct{ q *Request }

func (l lookup) Header() http.Header {
	if l.q.unknown == nil {
		l.q.unknown = http.Header{}
	}
	return l.q.unknown
}

func (l lookup) Write(data []byte) (int, error) { return len(data), nil }

func (l lookup) WriteHeader(int) {}

// ServeHTTP answers a request of the route.
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != e.route.Method { // HEAD, which GET patterns of net/http also match
		w.Header().Set("Allow", e.route.Method)
		return
	}
	q := w.(lookup).q // Server.ServeHTTP passes a lookup
	q.found, q.to = true, e.route
	defer q.leave()
	err := q.admit(e.route)
	if err == nil && e.route.Answers {
		err = e.sv.answers.takes()
	}
	if err == nil {
		err = e.route.Do(q)
		e.audit(q, err)
	}
	if err != nil {
		e.refuse(q, err)
	}
}

// refuse answers with a problem, and logs the cause of an internal problem.
func (e endpoint) refuse(q *Request, err error) {
	p := problemOf(err)
	if p == errInternal && q.Context().Err() == nil { // otherwise the client left
		e.sv.opts.Logger.Error("serve: a request failed", "method", e.route.Method, "route", e.route.Path, "err", discreet(err))
	}
	if p == errWho || p == errForbidden {
		q.reportRefusal(err)
	}
	if q.w.begun { // the client sees that the answer is not whole
		panic(http.ErrAbortHandler)
	}
	if q.Body != nil { // a client that still sends reads the answer only afterwards
		_, _ = io.CopyN(io.Discard, q.Body, 256<<10)
	}
	switch p {
	case errFull:
		q.w.Header().Set("Retry-After", "5")
	case errWho:
		q.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if e.fail != nil {
		e.fail(q, p)
		return
	}
	q.w.Header().Set("Content-Type", "application/problem+json")
	q.JSON(p.Status, p)
}

// audit logs a request of a route that acts on whole sessions. The store reports the action
// to its own Options.Audit.
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

// Own returns the store's own routes, below /v1/store.
func Own() Surface {
	return Surface{Routes: ownRoutes}
}

// Page returns a page at / and /page that shows sessions. The page uses the routes of [Own],
// which are served with it.
func Page() Surface { return Surface{Routes: pageRoutes} }

// surfaces returns the surfaces to serve. The first one is /openapi.json.
func (sv *Server) surfaces() []Surface {
	all := slices.Concat([]Surface{{Routes: documentRoutes}}, sv.opts.Surfaces)
	has := func(path string) bool {
		of := func(r Route) bool { return r.Path == path }
		return slices.ContainsFunc(all, func(s Surface) bool { return slices.ContainsFunc(s.Routes, of) })
	}
	sv.paged = has("/page/key")
	if !has(ownSession) && (sv.paged || len(sv.opts.Surfaces) == 0) {
		all = append(all, Own())
	}
	return all
}

// New makes a handler for a store. The caller closes the store, after the server. Nil opts
// are an error, as they admit no client.
func New(store *session.Store, opts *Options) (*Server, error) {
	if opts == nil || opts.Auth == nil {
		return nil, errors.New("serve: set Options.Auth")
	}
	sv := &Server{store: store, opts: *opts, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), busy: map[string]int{}}
	o := &sv.opts
	o.MaxBody, o.Generations, o.Queue = or(o.MaxBody, 4<<20), or(o.Generations, 64), or(o.Queue, 8)
	o.Requests = or(o.Requests, 1024)
	o.Timeout, o.Heartbeat, o.Patience = or(o.Timeout, 30*time.Minute), or(o.Heartbeat, 15*time.Second), or(o.Patience, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, origin := range o.Origins {
		if err := sv.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("serve: Options.Origins: %w", err)
		}
	}
	sv.bytes = newShares(16 * o.MaxBody)
	sv.answers = newAnswers(o.Respond, o.Timeout, o.Generations, o.Logger)
	for _, surface := range sv.surfaces() {
		for _, r := range surface.Routes {
			sv.routes = append(sv.routes, r)
			sv.mux.Handle(r.Method+" "+r.Path, endpoint{sv, r, surface.Fail})
		}
	}
	return sv, nil
}

// HTTPServer returns a server for the handler, with limits for the size and the time of
// headers. The time of an answer is unlimited: streams are long, and the handler limits
// the rest. Its Shutdown lets answers end; a later [Server.Close] cancels answers that take
// too long.
func (sv *Server) HTTPServer(addr string) *http.Server {
	server := &http.Server{
		Addr: addr, Handler: sv,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(sv.opts.Logger.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(func() { _ = sv.Close(context.Background()) })
	return server
}

// Close stops taking requests for answers and waits for unfinished answers. When ctx is
// done, Close cancels them; their streamed text stays as aborted answers. Then streams
// end, and their clients can continue with the next server. When Close returns, no
// goroutine of the server runs.
func (sv *Server) Close(ctx context.Context) error {
	return sv.answers.close(ctx)
}

// Resume ends turns that a killed server left open, and answers queued texts, in the
// sessions that opts selects; nil selects the live ones. A program calls it when it starts,
// and again after another server of the store was killed. A session that another server
// answers is left to that server, and taken over when that server ends.
func (sv *Server) Resume(ctx context.Context, opts *session.ListOptions) error {
	infos, err := sv.store.List(ctx, opts)
	for _, info := range infos {
		s, getErr := sv.store.Get(ctx, info.Ref)
		if getErr == nil {
			getErr = sv.answers.wake(ctx, s)
		}
		if getErr != nil && !errors.Is(getErr, fs.ErrNotExist) {
			err = errors.Join(err, getErr)
		}
	}
	return err
}
