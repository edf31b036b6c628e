package guardtest

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Model is a model and its service. The zero value is ready to use: it answers
// by [Echo] and has no window. It is an [net/http.Handler] and an
// [net/http.RoundTripper], both at once if need be, and safe for several
// goroutines. Its fields must not change while it is in use, and it must not be
// copied.
type Model struct {
	// Name is what answers give as their model. Empty: what the request asked
	// for. Requests may ask for any.
	Name string
	// Window is the size of the context window in tokens: a longer prompt is
	// refused. 0: unlimited.
	Window int
	// MaxOutput is how many output tokens a request may ask for at most.
	// 0: any number.
	MaxOutput int
	// MaxBody is the size in bytes that a body may have. 0: as with the real
	// service, 32 MB or, of Gemini and Bedrock, 20 MB.
	MaxBody int64
	// ReserveOutput also refuses a prompt that fits the window if prompt and
	// max_tokens together do not, as older models do. Newer ones, and a Model
	// without it, answer until the window is full.
	ReserveOutput bool
	// Bind makes the Messages API and Converse sign unsigned reasoning of their
	// answers. They refuse reasoning that they did not sign, and reasoning that
	// returns after a changed prefix.
	Bind bool
	// Counter counts prompts and outputs. Nil: [tokens.Estimator].
	Counter tokens.Counter
	// Answer is the rule for requests that are not refused. It may be called
	// from several goroutines at once. Nil: [Echo].
	Answer Rule
	// Pace is called before each event of a streamed answer with the context
	// of the request, to wait or to watch. An error of it breaks the
	// connection. Nil: events follow each other at once.
	Pace func(ctx context.Context) error
	// Observe is called with the record of a request when its answer has ended,
	// before the client can see that.
	Observe func(Recorded)
	// Keep is how many requests [Model.Requests], [Model.Invalid] and
	// [Model.Overflows] remember, each of them the last. 0: 100; negative: all.
	Keep int

	ids   atomic.Int64 // of answers of any kind
	mu    sync.Mutex   // guards the fields below
	stats Stats
	last  map[Outcome][]*Recorded // the sums over all outcomes are under ""
}

// ServeHTTP implements [net/http.Handler]: POST /v1/messages as Anthropic has it,
// POST /v1/chat/completions and POST /v1/responses as OpenAI has them, and the paths
// of Gemini's generateContent and of Bedrock's Converse, with their streams. It
// cuts a connection, where an answer asks for it, by panicking with
// [net/http.ErrAbortHandler].
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api := wiretest.At(r.URL.Path)
	x := &exchange{m: m, w: w, r: r, id: int(m.ids.Add(1)), api: cmp.Or[wiretest.API](api, wiretest.Anthropic{})}
	var err error
	switch {
	case api == nil:
		err = x.sendError(&wiretest.Refusal{Status: http.StatusNotFound, Kind: "not_found_error", Text: "Not found"})
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		err = x.sendError(x.worded(&wiretest.Refusal{Status: http.StatusMethodNotAllowed, Kind: wiretest.KindInvalid, Text: "Method Not Allowed"}))
	default:
		err = x.messages()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// An exchange is one HTTP request and its answer.
type exchange struct {
	m   *Model
	w   http.ResponseWriter
	r   *http.Request
	id  int
	api wiretest.API
}

// messages answers a request for a message. An error means that the connection
// is to be broken.
func (x *exchange) messages() error {
	req, no, err := x.read()
	if err != nil {
		return err
	}
	rec := x.m.begin(req, no)
	defer x.m.end(rec)
	if no != nil {
		return x.sendError(no)
	}
	return x.play(rec, x.m.Answer.orEcho(rec.Request))
}

func (m *Model) tokens(system string, tools []transcript.Tool, messages []transcript.Message) int {
	return cmp.Or[tokens.Counter](m.Counter, tokens.Estimator{}).Count(system, tools, messages)
}

func (m *Model) outputTokens(content []transcript.Block) int {
	if len(content) == 0 {
		return 0
	}
	msg := transcript.Message{Role: transcript.RoleAssistant, Content: content}
	empty := transcript.Message{Role: transcript.RoleAssistant}
	return max(1, m.tokens("", nil, []transcript.Message{msg})-m.tokens("", nil, []transcript.Message{empty}))
}
