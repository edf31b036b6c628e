package serve

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
)

// A Principal is the sender of a request.
type Principal struct {
	// Owner is an owner of sessions. It is required without Admin: the principal sees
	// only the sessions of this owner, and its new sessions get this owner.
	Owner string
	// Agents are the agents that the principal may use; empty means all agents.
	Agents []string
	// Admin lets the principal see all sessions, whatever Owner is. The routes for
	// administrators also require that Agents is empty.
	Admin bool

	shared bool // [Keys] also lists an administrator without an owner
}

// A Demand is a request that Options.Admit decides on.
type Demand struct {
	Route Route
	Body  int64 // size in bytes; Options.MaxBody if the client sends no length
	// Creates is set if the request is about to create a session. Routes that create only
	// a missing session, such as OpenViking's auto_create, set it only then.
	Creates bool
}

// May reports whether the principal may use an agent. Agents whose names begin with '_'
// belong to the library: no principal may use them.
func (p Principal) May(agent string) bool {
	return !strings.HasPrefix(agent, "_") && (len(p.Agents) == 0 || slices.Contains(p.Agents, agent))
}

// account returns the name under which requests are counted: the owner, or "" for
// administrators.
func (p Principal) account() string {
	if p.Admin {
		return ""
	}
	return p.Owner
}

// A ChannelQuery selects from the logs of channels, see package convlog. With an
// empty Chat it selects the channels of Agent and Type, where empty means all. The
// result is a list with the members agent, type, chat, size and changed. With a Chat it
// selects up to Limit messages of that chat, the newest first. The result is a list with
// time, role, content, sender and place. The last place is the Before of the next page.
type ChannelQuery struct {
	Agent  string `json:"agent"`
	Type   string `json:"type"`
	Chat   string `json:"chat"`
	Sender string `json:"sender"`
	Text   string `json:"text"` // part of the content
	Before string `json:"before"`
	Limit  int    `json:"limit"`
}

// The store's own routes take and answer the JSON forms of the types of package
// session. A GET takes the members as parameters.
const (
	ownStore   = "/v1/store"
	ownSession = ownStore + "/sessions/{agent}/{id}"
)

// lines is a request whose body is the lines of a transcript.
type lines struct{}

// mayAll reports whether the principal may use the routes for administrators.
func (p Principal) mayAll() bool { return p.Admin && len(p.Agents) == 0 }

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
}

// Options of [New].
type Options struct {
	// Respond answers the texts of users. Without it requests for an answer get 501.
	Respond Responder
	// Auth finds the sender of a request. After any error, even of a key store that is down,
	// the client gets 401. The server logs the error at most once a second, without the texts
	// of X-API-Key, Authorization and cookies. Auth is required, see [Keys]. It is called for
	// every request: a key that it no longer accepts is revoked.
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
	store   *session.Store
	opts    Options
	routes  []Route
	mux     *http.ServeMux
	cross   *http.CrossOriginProtection
	answers *answers
	bytes   *shares // of the bytes of bodies
	paged   bool    // [Page] is served

	mu       sync.Mutex     // guards busy
	busy     map[string]int // open requests by account
	refusals refusals
}

func or[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
}
