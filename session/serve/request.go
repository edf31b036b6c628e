package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/exchange"
)

// admit finds the principal, checks the request and reads the body.
func (q *Request) admit(route Route) (err error) {
	if route.Public {
		if q.hasBody() {
			return Invalid("the route takes no body")
		}
		return nil
	}
	if q.sv.isCrossSite(q.Request) {
		return errForbidden // a web page of another site
	}
	if q.Principal, err = q.sv.principal(q.Request); err != nil {
		return err
	}
	if route.Admin && !q.Principal.mayAll() {
		return errForbidden
	}
	if err := q.enter(); err != nil {
		return err
	}
	if _, err := url.ParseQuery(q.URL.RawQuery); err != nil { // Query leaves out a part that it cannot read
		return Invalid("the parameters are not in the form of a query")
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

// reportRefusal reports an unknown sender, or a request that the sender may not make. Err
// may hold an error of Options.Auth.
func (q *Request) reportRefusal(err error) {
	if left, due := q.sv.refusals.due(time.Now()); due {
		p := problemOf(err)
		var hide []string
		for _, secret := range credentials(q.Request) { // as they are, and in a URL
			hide = append(hide, secret, "...", url.QueryEscape(secret), "...")
		}
		cause := strings.NewReplacer(hide...).Replace(discreet(err)) // in one pass: the order counts
		q.sv.opts.Logger.Warn("serve: refused", "method", q.to.Method, "route", q.to.Path, "code", p.Code, "err", cause,
			"owner", q.Principal.Owner, "address", q.RemoteAddr, "others", left)
		q.sv.store.Audit(q.Context(), session.Action{Name: "refuse", Owner: q.Principal.Owner, Err: p})
	}
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
		return misfit(errNotJSON, err)
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
	id = cmp.Or(id, uuid.Must(uuid.NewV7()).String())
	s, err := q.create(session.Key{Agent: agent, Channel: "http", Peer: id}, session.CreateOptions{ID: id, Owner: q.Principal.Owner})
	if again && errors.Is(err, fs.ErrExist) {
		return q.Session(agent, id)
	}
	return s, err
}

// create makes a session if Options.Admit allows it.
func (q *Request) create(key session.Key, opts session.CreateOptions) (*session.Session, error) {
	if err := q.demand(true); err != nil {
		return nil, err
	}
	s, err := q.Store.Create(q.Context(), key, &opts)
	if _, ok := errors.AsType[*driver.NameError](err); ok {
		return nil, Invalid("the ID or the agent is not a valid name")
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
	if !q.Principal.Admin {
		return q.Session(agent, id)
	}
	if agent, err = q.agent(agent); err != nil {
		return nil, err
	}
	stores := []*session.Store{q.Store}
	if q.Principal.Owner != "" {
		own, err := q.Store.Scope(q.Principal.Owner)
		if err != nil {
			return nil, err
		}
		stores = []*session.Store{own, q.Store}
	}
	exact := func(ctx context.Context, st *session.Store, ref session.Ref) (*session.Session, error) {
		return st.Get(ctx, ref)
	}
	for _, look := range []func(context.Context, *session.Store, session.Ref) (*session.Session, error){exact, exchange.Find} { // Find takes long if the ID is missing
		for _, st := range stores {
			s, err = look(q.Context(), st, session.Ref{Agent: agent, ID: id})
			if err == nil && st == q.Store {
				var info session.Info
				if info, err = s.Info(q.Context()); err == nil && info.Owner != "" {
					err = fs.ErrNotExist
				}
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return s, err
			}
		}
	}
	return nil, err
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

func (q *Request) once() (cond session.Cond) {
	if key := q.Header.Get("Idempotency-Key"); key != "" {
		cond.Idem = "http:" + key
	}
	return cond
}

func (q *Request) lastEventID() string {
	return or(q.Header.Get("Last-Event-ID"), q.URL.Query().Get("lastEventId"))
}

// described returns the description of a session, or err.
func (q *Request) described(s *session.Session, err error) (session.Info, error) {
	if err != nil {
		return session.Info{}, err
	}
	return s.Info(q.Context())
}
