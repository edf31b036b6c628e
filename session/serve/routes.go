package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/session"
)

// A Route is a method and a path that the server answers.
type Route struct {
	Surface Surface `json:"-"`
	Method  string  `json:"method"`
	Path    string  `json:"path"` // as patterns of net/http have it
	Summary string  `json:"summary"`
	Admin   bool    `json:"admin,omitempty"` // for administrators

	do func(*request) error
}

// Routes returns the routes that are served.
func (sv *Server) Routes() []Route { return append([]Route(nil), sv.routes...) }

// allRoutes are those of all surfaces.
var allRoutes = join(zyHiveRoutes, openVikingRoutes, ownRoutes, agentsRoutes)

func join(tables ...[]Route) (all []Route) {
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// A request is one that is being answered.
type request struct {
	*http.Request
	w     http.ResponseWriter
	sv    *Server
	who   Principal
	store *session.Store // that of who
	began time.Time
}

// ServeHTTP answers a request. Paths that no route has get 404.
func (sv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sv.mux.ServeHTTP(w, r)
}

// handler answers the requests of a route.
func (sv *Server) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, w: w, sv: sv, began: time.Now()}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if err := q.admit(route); err != nil {
			q.fail(route, err)
			return
		}
		if err := route.do(q); err != nil {
			q.fail(route, err)
		}
	})
}

// admit finds out who asks, and limits what may be sent.
func (q *request) admit(route Route) (err error) {
	if err := q.sv.cross.Check(q.Request); err != nil {
		return errCrossSite
	}
	if q.who, err = q.sv.principal(q.Request); err != nil {
		if !errors.Is(err, errNotLocal) {
			err = errors.Join(ErrUnauthorized, err)
		}
		return err
	}
	if route.Admin && !q.who.Admin {
		return errForbidden
	}
	q.store = q.sv.store
	if !q.who.Admin {
		if q.store, err = q.sv.store.Scope(q.who.Owner); err != nil {
			return err
		}
	}
	q.Body = http.MaxBytesReader(q.w, q.Request.Body, q.sv.opts.MaxBody)
	err = http.NewResponseController(q.w).SetReadDeadline(time.Now().Add(q.sv.opts.Patience))
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	return err
}

// body decodes the body, which may be empty.
func (q *request) body(v any) error {
	data, err := io.ReadAll(q.Body)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return nil
	}
	if media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return errMedia
	}
	if err := json.Unmarshal(data, v); err != nil {
		return invalid("the body is not the JSON that the route takes")
	}
	return nil
}

// fail answers with a problem, and logs what nobody is told.
func (q *request) fail(route Route, err error) {
	p := problemOf(err)
	switch {
	case p == errInternal:
		q.sv.opts.Logger.Error("serve: a request failed", "method", route.Method, "route", route.Path, "err", err)
	case p == errFull:
		q.w.Header().Set("Retry-After", "5")
	case p == errWho:
		q.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	switch route.Surface {
	case OpenViking:
		q.envelope(p.Status, nil, p)
	case ZyHive:
		q.json(p.Status, map[string]string{"error": p.Title, "code": p.Code})
	case Agents:
		q.json(p.Status, agentsProblem(p))
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
