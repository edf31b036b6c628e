package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
)

// A Surface is a set of routes and the form of their problems, for one server. [Own] and
// [Page] return the surfaces of this package. The packages zyhive and openviking return
// other surfaces, and an application may write its own.
type Surface struct {
	Routes []Route // [New] panics if two routes share a method and a path
	// Fail answers with a problem in the form of the surface; nil answers in the form
	// of RFC 9457.
	Fail func(*Request, *Problem)
	// Owner is the owner of new sessions of administrators without an owner. Empty
	// means that these sessions have no owner. The server refuses the keys of this owner
	// if [Keys] also lists an administrator without an owner: the two would share sessions.
	Owner string

	kind surfaceKind
}

type surfaceKind int

const (
	surfaceOwn surfaceKind = iota + 1
	surfacePage
)

// Own returns the store's own routes, below /v1/store.
func Own() Surface {
	return Surface{Routes: slices.Concat(ownRoutes, channelRoutes), kind: surfaceOwn}
}

// Page returns a page at / and /page that shows sessions. The page uses the routes of [Own],
// which are served with it.
func Page() Surface { return Surface{Routes: pageRoutes, kind: surfacePage} }

// surfaces returns the surfaces to serve. The first one is /openapi.json.
func (sv *Server) surfaces() []Surface {
	of := func(kind surfaceKind) bool {
		return slices.ContainsFunc(sv.opts.Surfaces, func(s Surface) bool { return s.kind == kind })
	}
	sv.paged = of(surfacePage)
	all := slices.Concat([]Surface{{Routes: documentRoutes}}, sv.opts.Surfaces)
	if !of(surfaceOwn) && (sv.paged || len(sv.opts.Surfaces) == 0) {
		all = append(all, Own())
	}
	return all
}

// Options of [New].
type Options struct {
	// Respond answers the texts of users. Without it requests for an answer get 501.
	Respond Responder
	// Auth finds the sender of a request; after an error the client gets 401. Auth is
	// required, see [Keys]. It is called for every request: a key that it no longer accepts
	// is revoked.
	Auth func(*http.Request) (Principal, error)
	// Admit, if set, may refuse a request of a known sender before the body is read, for
	// quotas of the application. It is called again, with Demand.Creates, before the request
	// creates a session. A [Problem] is sent unchanged, any other error as 429.
	Admit func(context.Context, Principal, Demand) error
	// Memory, if set, learns from the chapters of a session that a request commits, before
	// the answer is sent. Erasing an owner also removes the owner's memories. Surfaces may
	// search Memory.
	Memory *memory.Store
	// Surfaces are the routes to serve; empty means [Own] alone.
	Surfaces []Surface
	// Origins are other sites whose web pages may send requests, such as
	// https://app.example.com.
	Origins []string

	// Renderers are the forms of model requests in which the store's own routes export
	// sessions, by names such as "anthropic".
	Renderers map[string]exchange.Renderer

	// ChannelLogs reads the logs of channels for administrators; without it requests
	// for these logs get 501.
	ChannelLogs func(context.Context, ChannelQuery) (any, error)

	// MaxBody is the largest body of a request in bytes; 0 means 4 MiB. All bodies together
	// may take 16 times MaxBody, and all bodies of one owner 12 times MaxBody.
	MaxBody int64
	// Generations is the largest number of concurrent answers; 0 means 64. Others wait. The
	// sessions of one owner get at most three quarters, and waiting owners take turns.
	Generations int

	Queue     int           // most texts that wait in one session; 0 means 8. Further ones get 503
	Requests  int           // most open requests of one owner, with streams; 0 means 1024. Further ones get 503
	Timeout   time.Duration // for one answer; 0 means 30 minutes
	Heartbeat time.Duration // silence after which a stream gets a comment; 0 means 15 seconds
	// Patience is the longest time for a client to read an event or to send a body; 0 means
	// 30 seconds.
	Patience time.Duration
	Logger   *slog.Logger // nil means slog.Default(). It gets no texts, keys or paths
}

// A Server serves a store over HTTP. It is safe for several goroutines.
type Server struct {
	store  *session.Store
	opts   Options
	routes []Route
	mux    *http.ServeMux
	cross  *http.CrossOriginProtection
	slots  *shares // of concurrent answers
	bytes  *shares // of the bytes of bodies
	paged  bool    // [Page] is served

	closing  context.Context //nolint:containedctx // done after Close is called
	close    context.CancelFunc
	life     context.Context //nolint:containedctx // ends streams and answers at Close
	end      context.CancelCauseFunc
	mu       sync.Mutex               // guards answers and busy; also held while closing is cancelled
	answers  map[session.Ref]*answers // by session
	busy     map[string]int           // open requests by account
	refusals refusals
	working  sync.WaitGroup
}

var errClosed = errors.New("the server is being stopped: try again later")

// New makes a handler for a store. The caller closes the store, after the server. Nil opts
// are an error, as they admit no client.
func New(store *session.Store, opts *Options) (*Server, error) {
	if opts == nil || opts.Auth == nil {
		return nil, errors.New("serve: set Options.Auth")
	}
	sv := &Server{store: store, opts: *opts, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), answers: map[session.Ref]*answers{}, busy: map[string]int{}}
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
	sv.slots, sv.bytes = newShares(int64(o.Generations)), newShares(16*o.MaxBody)
	sv.closing, sv.close = context.WithCancel(context.Background())
	sv.life, sv.end = context.WithCancelCause(context.Background())
	for _, surface := range sv.surfaces() {
		for _, r := range surface.Routes {
			sv.routes = append(sv.routes, r)
			sv.mux.Handle(r.Method+" "+r.Path, endpoint{sv, r, surface.Fail})
		}
	}
	return sv, nil
}

func or[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
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
	sv.mu.Lock()
	sv.close()
	sv.mu.Unlock()
	done := make(chan struct{})
	go func() {
		sv.working.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	sv.end(errClosed)
	<-done
	return err
}
