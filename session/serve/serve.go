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

// A Surface is a set of routes with a form of their problems, for one server. [Own] and
// [Page] return the surfaces of this package. The packages zyhive and openviking return
// others, and an application may write its own.
type Surface struct {
	Routes []Route // a method and a path that two routes share panic in [New]
	// Fail answers with a problem in the form of the surface; nil answers in the form
	// of RFC 9457.
	Fail func(*Request, *Problem)

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

// Page returns a page to look at sessions with, at /page. It uses the routes of [Own],
// which are served with it.
func Page() Surface { return Surface{Routes: pageRoutes, kind: surfacePage} }

// surfaces returns the surfaces to serve, the description of all routes first.
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
	// Respond answers what users say. Without it requests for an answer get 501.
	Respond Responder
	// Auth finds the sender of a request; any error is answered with 401. It must be
	// set, see [Keys]. It is called for every request, so a key that it takes no more is
	// revoked.
	Auth func(*http.Request) (Principal, error)
	// Admit, if set, may refuse a request whose sender is known, before its body is read:
	// for quotas of the application. A [Problem] is sent as it is, any other error as 429.
	Admit func(context.Context, Principal, Demand) error
	// Memory, if set, learns from the chapters of a commit, in the time of the request,
	// and forgets an owner who is erased. Surfaces may search it.
	Memory *memory.Store
	// Surfaces are the routes to serve; none is [Own] alone.
	Surfaces []Surface
	// Origins are further web pages that may call, such as https://app.example.com.
	Origins []string

	// Renderers are the forms of model requests that the store's own routes export
	// sessions in, by names such as "anthropic".
	Renderers map[string]exchange.Renderer

	// ChannelLogs reads the logs of channels for administrators; without it requests
	// for them get 501.
	ChannelLogs func(context.Context, ChannelQuery) (any, error)

	// MaxBody is how many bytes a request may have; 0 is 4 MiB. All bodies under way may
	// have 16 times as many, and the bodies of one owner three quarters of these.
	MaxBody int64
	// Generations is how many answers are made at once; 0 is 64. Others wait. The sessions
	// of one owner get three quarters, and the owners take turns.
	Generations int

	Queue     int           // texts that may wait in one session; 0 is 8. Then it is 503
	Requests  int           // of one owner at once, streams included; 0 is 1024. More are 503
	Timeout   time.Duration // for one answer; 0 is 30 minutes
	Heartbeat time.Duration // of silence after which a stream gets a comment; 0 is 15 seconds
	// Patience is how long a client may take to read an event or to send a body; 0 is
	// 30 seconds.
	Patience time.Duration
	Logger   *slog.Logger // nil is slog.Default(). It gets no texts, keys or paths
}

// A Server serves a store over HTTP. It is safe for several goroutines.
type Server struct {
	store  *session.Store
	opts   Options
	routes []Route
	mux    *http.ServeMux
	cross  *http.CrossOriginProtection
	slots  *shares // of answers
	bytes  *shares // of bodies
	paged  bool    // [Page] is served

	closing  context.Context //nolint:containedctx // done once Close was called
	close    context.CancelFunc
	life     context.Context //nolint:containedctx // ends streams and answers at Close
	end      context.CancelCauseFunc
	mu       sync.Mutex               // also held while closing is cancelled
	answers  map[session.Ref]*answers // of sessions that are being answered
	busy     map[string]int           // how many requests of each account are being answered
	refusals refusals
	working  sync.WaitGroup
}

var errClosed = errors.New("the server is being stopped: try again later")

// New makes a handler for a store, which stays the caller's to close after the
// server. Nil opts are an error, as they admit no client.
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

// HTTPServer returns a server for the handler, with limits for headers and for how
// long they may take. The time of an answer is unlimited: streams are long, and
// the handler limits the rest. Its Shutdown lets answers end; [Server.Close] afterwards
// cancels those that take too long.
func (sv *Server) HTTPServer(addr string) *http.Server {
	server := &http.Server{
		Addr: addr, Handler: sv,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(sv.opts.Logger.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(func() { _ = sv.Close(context.Background()) })
	return server
}

// Close stops taking requests for answers and waits for unfinished ones. When ctx
// is done it cancels them: their streamed text stays, as aborted answers. Streams
// end then, and their clients can continue with the next server. Nothing of the
// server runs afterwards.
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
