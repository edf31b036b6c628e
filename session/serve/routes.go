package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/session"
)

// A Route is a method and a path that the server answers.
type Route struct {
	Surface Surface `json:"-"`
	Method  string  `json:"method"`
	Path    string  `json:"path"` // as patterns of net/http have it
	Summary string  `json:"summary"`
	Admin   bool    `json:"admin,omitempty"` // for administrators who may use all agents

	do      func(*request) error
	in, out any    // what is taken and answered, for the document; nil is not said
	media   string // of the answer; empty is application/json
	public  bool   // for everybody, as it has nothing of the store
}

// Routes returns the routes that are served.
func (sv *Server) Routes() []Route { return append([]Route(nil), sv.routes...) }

// allRoutes are those of all surfaces.
var allRoutes = join(zyHiveRoutes, openVikingRoutes, ownRoutes, channelRoutes, pageRoutes)

func join(tables ...[]Route) (all []Route) {
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// A request is one that is being answered.
type request struct {
	*http.Request
	w     *writer
	sv    *Server
	who   Principal
	store *session.Store // that of who
	data  []byte         // the body
	began time.Time
	busy  bool // it counts among those of who
}

// An endpoint answers the requests of a route.
type endpoint struct {
	sv    *Server
	route Route
}

// ServeHTTP answers a request. Paths that no route has get 404.
func (sv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.Body != nil && r.Body != http.NoBody {
		// A client may send a body slowly even where nobody reads it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(sv.opts.Patience))
	}
	if sv.preflight(w, r) {
		return
	}
	found, _ := sv.mux.Handler(r)
	if e, ok := found.(endpoint); ok && r.Method == e.route.Method {
		sv.mux.ServeHTTP(w, r)
		return
	}
	q := &request{Request: r, w: &writer{ResponseWriter: w, patience: sv.opts.Patience}, sv: sv, began: time.Now()}
	q.fail(Route{Path: "none"}, unknown(h, found))
}

// unknown is why no route answers a request.
func unknown(h http.Header, found http.Handler) error {
	if e, ok := found.(endpoint); ok { // HEAD, which patterns of net/http take for GET
		h.Set("Allow", e.route.Method)
		return errMethod
	}
	said := nowhere{}
	found.ServeHTTP(said, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}})
	if allow := http.Header(said).Get("Allow"); allow != "" {
		h.Set("Allow", allow)
		return errMethod
	}
	return errNoRoute
}

// ServeHTTP answers a request of the route.
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{Request: r, w: &writer{ResponseWriter: w, patience: e.sv.opts.Patience}, sv: e.sv, began: time.Now()}
	defer q.leave()
	err := q.admit(e.route)
	if err == nil {
		err = e.route.do(q)
	}
	if err != nil {
		q.fail(e.route, err)
	}
}

// admit finds out who asks, and reads the body.
func (q *request) admit(route Route) (err error) {
	if route.public {
		return q.read()
	}
	if q.sv.isCrossSite(q.Request) {
		return errCrossSite
	}
	if q.who, err = q.sv.principal(q.Request); err != nil {
		if !errors.Is(err, errNotLocal) {
			err = errors.Join(errUnauthorized, err)
		}
		return err
	}
	if route.Admin && !q.who.mayAll() {
		return errForbidden
	}
	if err := q.enter(); err != nil {
		return err
	}
	if key := q.Header.Get("Idempotency-Key"); len(key) > 255 || !utf8.ValidString(key) {
		return invalid("the idempotency key is longer than 255 bytes, or not UTF-8")
	}
	q.store = q.sv.store
	if !q.who.Admin {
		if q.store, err = q.sv.store.Scope(q.who.Owner); err != nil {
			return err
		}
	}
	if err := q.read(); err != nil || len(q.data) == 0 {
		return err
	}
	_, ofLines := route.in.(lines)
	switch {
	case ofLines && !q.has(mediaLines):
		return errLines
	case !ofLines && !q.has("application/json"):
		return errMedia
	case !ofLines && !utf8.Valid(q.data):
		return errNotJSON
	}
	return nil
}

// enter counts the request until leave, among those of its owner, or those of all
// administrators.
func (q *request) enter() error {
	q.sv.mu.Lock()
	defer q.sv.mu.Unlock()
	if q.sv.busy[q.who.account()] >= q.sv.opts.Requests {
		return errFull
	}
	q.sv.busy[q.who.account()]++
	q.busy = true
	return nil
}

func (q *request) leave() {
	if !q.busy {
		return
	}
	q.sv.mu.Lock()
	defer q.sv.mu.Unlock()
	if q.sv.busy[q.who.account()]--; q.sv.busy[q.who.account()] == 0 {
		delete(q.sv.busy, q.who.account())
	}
}

// read reads the body. Afterwards the client has nothing more to send, and nothing
// limits how long it may wait.
func (q *request) read() (err error) {
	if q.Body == nil || q.Body == http.NoBody {
		return nil
	}
	if q.ContentLength > q.sv.opts.MaxBody {
		return errTooLarge
	}
	var data bytes.Buffer
	data.Grow(int(min(max(q.ContentLength, 0), 64<<10)) + bytes.MinRead) // a client may say more than it sends
	_, err = data.ReadFrom(http.MaxBytesReader(q.w.ResponseWriter, q.Body, q.sv.opts.MaxBody))
	if q.data = data.Bytes(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return err
		}
		return errCut
	}
	_ = http.NewResponseController(q.w).SetReadDeadline(time.Time{})
	return nil
}

// body decodes the body, which may be empty.
func (q *request) body(v any) error {
	if len(q.data) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.data, v); err != nil {
		return errNotJSON
	}
	return nil
}

// has reports whether the body has a media type. Pages of other sites can send
// text/plain without asking, and are refused by it.
func (q *request) has(media string) bool {
	text := q.Header.Get("Content-Type")
	if text == media {
		return true
	}
	said, _, err := mime.ParseMediaType(text)
	return err == nil && said == media
}

// fail answers with a problem, and logs the cause of an internal one.
func (q *request) fail(route Route, err error) {
	p := problemOf(err)
	if p == errInternal {
		q.sv.opts.Logger.Error("serve: a request failed", "method", route.Method, "route", route.Path, "err", discreet(err))
	}
	if q.w.begun { // the client sees that the answer is not whole
		panic(http.ErrAbortHandler)
	}
	if q.Body != nil { // a client that still sends reads the answer afterwards, and net/http waits for it
		_, _ = io.CopyN(io.Discard, q.Body, 256<<10)
	}
	switch p {
	case errFull:
		q.w.Header().Set("Retry-After", "5")
	case errWho:
		q.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	switch route.Surface {
	case OpenViking:
		q.envelope(p.Status, nil, p)
	case ZyHive:
		q.json(p.Status, map[string]string{"error": p.Title, "code": p.Code})
	default:
		q.w.Header().Set("Content-Type", "application/problem+json")
		q.json(p.Status, p)
	}
}

// json answers with JSON.
func (q *request) json(status int, v any) {
	if q.w.Header().Get("Content-Type") == "" {
		q.w.Header().Set("Content-Type", "application/json")
	}
	q.w.WriteHeader(status)
	_ = json.NewEncoder(q.w).Encode(v) // the client is gone if it fails
}

// agent returns an agent that the principal may use.
func (q *request) agent(name string) (string, error) {
	if !q.who.may(name) {
		return "", errNotFound
	}
	return name, nil
}

// session returns a session that the principal may see.
func (q *request) session(ctx context.Context, agent, id string) (*session.Session, error) {
	agent, err := q.agent(agent)
	if err != nil {
		return nil, err
	}
	return q.store.Get(ctx, session.Ref{Agent: agent, ID: id})
}

// list returns the sessions that the principal may see.
func (q *request) list(opts *session.ListOptions) ([]session.Info, error) {
	if opts.Agent != "" {
		if _, err := q.agent(opts.Agent); err != nil {
			return nil, err
		}
	}
	infos, err := q.store.List(q.Context(), opts)
	return slices.DeleteFunc(infos, func(i session.Info) bool { return !q.who.may(i.Agent) }), err
}

// number returns a number of the query.
func (q *request) number(name string, other int) (int, error) {
	text := q.URL.Query().Get(name)
	if text == "" {
		return other, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, invalid("the parameter " + name + " is not a number")
	}
	return n, nil
}
