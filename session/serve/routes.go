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
	Path    string `json:"path"` // as patterns of net/http have it
	Summary string `json:"summary"`
	Admin   bool   `json:"admin,omitempty"` // for administrators who may use all agents
	Answers bool   `json:"-"`               // it says texts: 501 without a responder, 503 while the server stops

	// Do answers a request. An error becomes a problem; after the first byte of an
	// answer it cuts the connection.
	Do func(*Request) error `json:"-"`

	// Audit names what the route does to whole sessions, such as delete or export: a line
	// of the log says who has done it. Empty is nothing of that kind.
	Audit string `json:"-"`

	// In and Out have the types of the request and of its answer in JSON, for the document.
	// A GET or DELETE takes the members of In as parameters. Media is the type of the answer,
	// or the types, with ", " between them; empty is application/json.
	In    any    `json:"-"`
	Out   any    `json:"-"`
	Media string `json:"-"`

	public bool // public, as it contains no data of the store
}

// A Request is a request of a principal, for one goroutine. Its body was read: see
// [Request.Decode].
type Request struct {
	*http.Request
	Principal Principal
	Store     *session.Store      // with the sessions of the principal's owner, or of all for administrators
	Memory    *memory.Store       // Options.Memory, with the memories of all owners; may be nil
	Writer    http.ResponseWriter // for answers that are not JSON; it gives each part Options.Patience
	Began     time.Time

	w    *writer
	sv   *Server
	data []byte // the body
	size int64  // the part of all bytes under way that it holds
	busy bool   // it counts among the requests of the principal

	found   bool        // it has a route
	unknown http.Header // else the headers of net/http
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

// ServeHTTP answers a request. Paths that no route has get 404.
func (sv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), always)
	if r.Body != nil && r.Body != http.NoBody {
		// A client may send a body slowly even if it is not read.
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

// A lookup is the writer of a request that looks for its route. It keeps the headers of
// answers of net/http itself.
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
	if r.Method != e.route.Method { // HEAD, which patterns of net/http take for GET
		w.Header().Set("Allow", e.route.Method)
		return
	}
	q := w.(lookup).q // as ServeHTTP of the server passes it
	q.found = true
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

// admit finds out who asks, and reads the body.
func (q *Request) admit(route Route) (err error) {
	if route.public {
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
		return Invalid("the idempotency key is longer than 255 bytes, or not UTF-8")
	}
	if admit := q.sv.opts.Admit; admit != nil {
		if err := admit(q.Context(), q.Principal, Demand{route, q.length()}); err != nil {
			if p, ok := errors.AsType[*Problem](err); ok {
				return p
			}
			return errQuota
		}
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

// enter counts the request until leave, among the requests of its owner, or of
// all administrators.
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

// length returns how many bytes the body may have.
func (q *Request) length() int64 {
	switch {
	case !q.hasBody():
		return 0
	case q.ContentLength < 0: // the client names none
		return q.sv.opts.MaxBody
	}
	return q.ContentLength
}

func (q *Request) hasBody() bool { return q.Body != nil && q.Body != http.NoBody }

// hold takes a part of the bytes that all bodies may have. It waits for as long as a
// client may take to send a body.
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

// drop gives up the body.
func (q *Request) drop() {
	if q.size > 0 {
		q.sv.bytes.give(q.Principal.account(), q.size)
	}
	q.size, q.data = 0, nil
}

// read reads the body. Afterwards the client may wait without limit.
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

// Decode decodes the body as JSON; an empty one leaves v as it is. The error is a
// problem for the client.
func (q *Request) Decode(v any) error {
	if len(q.data) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.data, v); err != nil {
		return errNotJSON
	}
	return nil
}

// has reports whether the body is of a media type. Pages of other sites can send
// text/plain without a preflight; this refuses them.
func (q *Request) has(media string) bool {
	text := q.Header.Get("Content-Type")
	if text == media {
		return true
	}
	said, _, err := mime.ParseMediaType(text)
	return err == nil && said == media
}

// refuse answers with a problem, and logs the cause of an internal one.
func (e endpoint) refuse(q *Request, err error) {
	p := problemOf(err)
	if p == errInternal && q.Context().Err() == nil { // else the client has left
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
	if q.Body != nil { // a client that still sends reads the answer afterwards, and net/http waits for it
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

// audit logs who has used a route that does something to whole sessions. The store reports
// the same to its Options.Audit.
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

// JSON answers with a status and JSON.
func (q *Request) JSON(status int, v any) {
	if q.w.Header().Get("Content-Type") == "" {
		q.w.Header().Set("Content-Type", "application/json")
	}
	q.w.WriteHeader(status)
	_ = json.NewEncoder(q.w).Encode(v) // the client has left if it fails
}

func (q *Request) agent(name string) (string, error) {
	if !q.Principal.May(name) {
		return "", errNotFound
	}
	return name, nil
}

// Session returns a session that the principal may see, by an ID for [exchange.Find]. The
// error for any other matches [fs.ErrNotExist].
func (q *Request) Session(agent, id string) (*session.Session, error) {
	agent, err := q.agent(agent)
	if err != nil {
		return nil, err
	}
	return exchange.Find(q.Context(), q.Store, session.Ref{Agent: agent, ID: id})
}

// Create makes a session of a conversation over HTTP, with the owner of the
// principal. An empty ID is a new one; with an Idempotency-Key, Create returns the session
// that it made for the first such request. The error matches [fs.ErrExist] if the ID is in
// use.
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
	}
	id = cmp.Or(id, uuid.Must(uuid.NewV7()).String())
	key := session.Key{Agent: agent, Channel: "http", Peer: id}
	s, err := q.Store.Create(q.Context(), key, &session.CreateOptions{ID: id, Owner: q.Principal.Owner})
	if _, ok := errors.AsType[*driver.NameError](err); ok {
		return nil, Invalid("the ID or the agent is not one that a session can have")
	}
	if again && errors.Is(err, fs.ErrExist) {
		return q.Session(agent, id)
	}
	return s, err
}

// Sessions returns the sessions that the principal may see.
func (q *Request) Sessions(opts *session.ListOptions) ([]session.Info, error) {
	if opts.Agent != "" {
		if _, err := q.agent(opts.Agent); err != nil {
			return nil, err
		}
	}
	infos, err := q.Store.List(q.Context(), opts)
	return slices.DeleteFunc(infos, func(i session.Info) bool { return !q.Principal.May(i.Agent) }), err
}
