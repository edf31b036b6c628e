package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
)

// A Route is a method and a path that the server answers.
type Route struct {
	Method  string `json:"method"`
	Path    string `json:"path"` // in the form of the patterns of net/http
	Summary string `json:"summary"`
	Admin   bool   `json:"admin,omitempty"` // for administrators who may use all agents
	Answers bool   `json:"-"`               // queues texts: 501 without a responder, 503 while the server stops

	// Do answers a request. An error becomes a problem; after the first byte of an
	// answer it cuts the connection.
	Do func(*Request) error `json:"-"`

	// Audit names an action on whole sessions, such as delete or export. The server logs
	// each such request with its owner. Empty means no such action.
	Audit string `json:"-"`

	// In and Out have the types of the request and of its answer in JSON, for /openapi.json.
	// A GET or DELETE takes the members of In as parameters. Media lists the media types of
	// the answer, separated by ", "; empty means application/json.
	In    any    `json:"-"`
	Out   any    `json:"-"`
	Media string `json:"-"`

	// Public routes need no key and take no body. The answer contains no data of the store.
	Public bool `json:"-"`
}

// A Request is a request of a principal, for one goroutine. Its body was read: see
// [Request.Decode].
type Request struct {
	*http.Request
	Principal Principal
	Store     *session.Store      // limited to the principal's owner; not limited for administrators
	Memory    *memory.Store       // Options.Memory, with the memories of all owners; may be nil
	Writer    http.ResponseWriter // for answers that are not JSON; it gives each part Options.Patience
	Began     time.Time

	w    *writer
	sv   *Server
	to   Route
	data []byte // the body
	size int64  // the bytes that the body holds of the limit for all bodies
	busy bool   // counted among the requests of the principal

	found   bool        // a route matches
	unknown http.Header // if no route matches, the headers that net/http set
}

func (sv *Server) newRequest(w http.ResponseWriter, r *http.Request) *Request {
	cut := &writer{ResponseWriter: w, patience: sv.opts.Patience}
	return &Request{Request: r, Memory: sv.opts.Memory, Writer: cut, Began: time.Now(), w: cut, sv: sv}
}

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
	q := sv.newRequest(w, r)
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
		err = e.sv.takes()
	}
	if err == nil {
		err = e.route.Do(q)
		e.audit(q, err)
	}
	if err != nil {
		e.refuse(q, err)
	}
}

// admit finds the principal, checks the request and reads the body.
func (q *Request) admit(route Route) (err error) {
	if route.Public {
		if q.hasBody() {
			return Invalid("the route takes no body")
		}
		return nil
	}
	if q.sv.isCrossSite(q.Request) {
		return errCrossSite
	}
	if q.Principal, err = q.sv.principal(q.Request); err != nil {
		return errors.Join(errUnauthorized, err)
	}
	if route.Admin && !q.Principal.mayAll() {
		return errForbidden
	}
	if err := q.enter(); err != nil {
		return err
	}
	if key := q.Header.Get("Idempotency-Key"); len(key) > 255 || !utf8.ValidString(key) {
		return Invalid("the idempotency key is longer than 255 bytes, or is not UTF-8")
	}
	if err := q.demand(false); err != nil {
		return err
	}
	q.Store = q.sv.store
	if !q.Principal.Admin {
		if q.Store, err = q.sv.store.Scope(q.Principal.Owner); err != nil {
			return err
		}
	}
	if err := q.read(); err != nil || len(q.data) == 0 {
		return err
	}
	_, ofLines := route.In.(lines)
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

// demand asks Options.Admit; creates is set if the request is about to create a session.
func (q *Request) demand(creates bool) error {
	if q.sv.opts.Admit == nil {
		return nil
	}
	err := q.sv.opts.Admit(q.Context(), q.Principal, Demand{q.to, q.length(), creates})
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if err != nil {
		return errQuota
	}
	return nil
}

// enter counts the request among the requests of its owner until leave. Administrators
// share one count.
func (q *Request) enter() error {
	q.sv.mu.Lock()
	defer q.sv.mu.Unlock()
	if q.sv.busy[q.Principal.account()] >= q.sv.opts.Requests {
		return errFull
	}
	q.sv.busy[q.Principal.account()]++
	q.busy = true
	return nil
}

func (q *Request) leave() {
	q.drop()
	if !q.busy {
		return
	}
	q.sv.mu.Lock()
	defer q.sv.mu.Unlock()
	if q.sv.busy[q.Principal.account()]--; q.sv.busy[q.Principal.account()] == 0 {
		delete(q.sv.busy, q.Principal.account())
	}
}

// length returns the size of the body, or the largest possible size if it is unknown.
func (q *Request) length() int64 {
	switch {
	case !q.hasBody():
		return 0
	case q.ContentLength < 0: // the client sent no length
		return q.sv.opts.MaxBody
	}
	return q.ContentLength
}

func (q *Request) hasBody() bool { return q.Body != nil && q.Body != http.NoBody }

// hold takes size bytes of the limit for all bodies. It waits for at most
// Options.Patience.
func (q *Request) hold(size int64) error {
	if !q.sv.bytes.try(q.Principal.account(), size) {
		ctx, cancel := context.WithTimeout(q.Context(), q.sv.opts.Patience)
		defer cancel()
		if err := q.sv.bytes.take(ctx, q.Principal.account(), size); err != nil {
			return errFull
		}
	}
	q.size = size
	return nil
}

// drop forgets the body and returns its bytes to the limit for all bodies.
func (q *Request) drop() {
	if q.size > 0 {
		q.sv.bytes.give(q.Principal.account(), q.size)
	}
	q.size, q.data = 0, nil
}

// read reads the body, and then removes the read deadline of the connection.
func (q *Request) read() (err error) {
	if !q.hasBody() {
		return nil
	}
	if q.ContentLength > q.sv.opts.MaxBody {
		return errTooLarge
	}
	if err := q.hold(q.length()); err != nil {
		return err
	}
	var data bytes.Buffer
	data.Grow(int(min(max(q.ContentLength, 0), 64<<10)) + bytes.MinRead) // a client may announce more than it sends
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

// Decode decodes the body as JSON into v; an empty body leaves v unchanged. The error is a
// [Problem] for the client.
func (q *Request) Decode(v any) error {
	if len(q.data) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.data, v); err != nil {
		return errNotJSON
	}
	return nil
}

// has reports whether the body is of a media type. The check refuses text/plain, which pages
// of other sites can send without a preflight request.
func (q *Request) has(media string) bool {
	text := q.Header.Get("Content-Type")
	if text == media {
		return true
	}
	said, _, err := mime.ParseMediaType(text)
	return err == nil && said == media
}

// refuse answers with a problem, and logs the cause of an internal problem.
func (e endpoint) refuse(q *Request, err error) {
	p := problemOf(err)
	if p == errInternal && q.Context().Err() == nil { // otherwise the client left
		e.sv.opts.Logger.Error("serve: a request failed", "method", e.route.Method, "route", e.route.Path, "err", discreet(err))
	}
	if p == errWho || p == errForbidden {
		if left, due := e.sv.refusals.due(time.Now()); due {
			e.sv.opts.Logger.Warn("serve: refused", "method", e.route.Method, "route", e.route.Path, "code", p.Code,
				"owner", q.Principal.Owner, "address", q.RemoteAddr, "others", left)
			e.sv.store.Audit(q.Context(), session.Action{Name: "refuse", Owner: q.Principal.Owner, Err: p})
		}
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

// JSON answers with a status and with v as JSON.
func (q *Request) JSON(status int, v any) {
	if q.w.Header().Get("Content-Type") == "" {
		q.w.Header().Set("Content-Type", "application/json")
	}
	q.w.WriteHeader(status)
	_ = json.NewEncoder(q.w).Encode(v) // fails if the client left
}

func (q *Request) agent(name string) (string, error) {
	if !q.Principal.May(name) {
		return "", errNotFound
	}
	return name, nil
}

// Session returns a session that the principal may see, by an ID for [exchange.Find]. The
// error for any other session matches [fs.ErrNotExist].
func (q *Request) Session(agent, id string) (*session.Session, error) {
	agent, err := q.agent(agent)
	if err != nil {
		return nil, err
	}
	return exchange.Find(q.Context(), q.Store, session.Ref{Agent: agent, ID: id})
}

// Create makes a session for a conversation over HTTP, with the owner of the principal. An
// empty id means a new ID. With an empty id and an Idempotency-Key, a repeated request
// returns the session of the first request. The error matches [fs.ErrExist] if the ID is
// in use.
func (q *Request) Create(agent, id string) (*session.Session, error) {
	agent, err := q.agent(agent)
	if err != nil {
		return nil, err
	}
	once := q.Header.Get("Idempotency-Key")
	again := id == "" && once != ""
	if again {
		if id, err = idOf(q.Context(), q.sv.store, q.Principal.Owner, agent, once); err != nil {
			return nil, err
		}
		if s, err := q.Session(agent, id); !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	if err := q.demand(true); err != nil {
		return nil, err
	}
	id = cmp.Or(id, uuid.Must(uuid.NewV7()).String())
	key := session.Key{Agent: agent, Channel: "http", Peer: id}
	s, err := q.Store.Create(q.Context(), key, &session.CreateOptions{ID: id, Owner: q.Principal.Owner})
	if _, ok := errors.AsType[*driver.NameError](err); ok {
		return nil, Invalid("the ID or the agent is not a valid name")
	}
	if again && errors.Is(err, fs.ErrExist) {
		return q.Session(agent, id)
	}
	return s, err
}

// FindOrCreate returns a session of the principal's owner, and makes it if it is missing.
// A session of another owner stays missing, even for an administrator: a user could take
// an ID first, and then read the administrator's messages. Administrators also get sessions
// without an owner.
func (q *Request) FindOrCreate(agent, id string) (*session.Session, error) {
	s, err := q.find(agent, id)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s, err = q.Create(agent, id)
	if errors.Is(err, fs.ErrExist) { // of another owner, or made just now
		return q.find(agent, id)
	}
	return s, err
}

// find returns a session of the principal's owner, or for administrators without an owner.
func (q *Request) find(agent, id string) (s *session.Session, err error) {
	if q.Principal.Admin && q.Principal.Owner != "" {
		all := q.Store
		if q.Store, err = all.Scope(q.Principal.Owner); err == nil {
			s, err = q.Session(agent, id)
		}
		if q.Store = all; !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	if s, err = q.Session(agent, id); err != nil || !q.Principal.Admin {
		return s, err
	}
	info, err := s.Info(q.Context())
	if err == nil && info.Owner != "" {
		err = fs.ErrNotExist
	}
	return s, err
}

// Sessions lists the selected sessions that the principal may see.
func (q *Request) Sessions(opts *session.ListOptions) ([]session.Info, error) {
	if opts.Agent != "" {
		if _, err := q.agent(opts.Agent); err != nil {
			return nil, err
		}
	}
	infos, err := q.Store.List(q.Context(), opts)
	return slices.DeleteFunc(infos, func(i session.Info) bool { return !q.Principal.May(i.Agent) }), err
}
