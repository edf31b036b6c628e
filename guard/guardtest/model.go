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

// Model is a model and its service. The zero value is ready to use: it answers by
// [Echo], without a window. A Model is an [net/http.Handler] and an
// [net/http.RoundTripper], even both at once, and safe for several goroutines. It must
// not be copied, and its fields must not change while it is in use.
type Model struct {
	// Name is the model that answers name. Empty: the requested model. A request may
	// name any model.
	Name string
	// Window is the size of the context window in tokens: a longer prompt is
	// refused. 0: unlimited.
	Window int
	// MaxOutput is the largest number of output tokens that a request may ask for. 0:
	// any number.
	MaxOutput int
	// MaxBody is the maximum size of a body in bytes. 0: the maximum of the real
	// service, which is 20 MB for Gemini and Bedrock, and 32 MB otherwise.
	MaxBody int64
	// ReserveOutput also refuses a prompt that fits the window alone, but not together
	// with max_tokens, as older models do. Without it the Model answers until the
	// window is full, as newer models do.
	ReserveOutput bool
	// Bind makes the Messages API and Converse sign the unsigned reasoning in their
	// answers. They then refuse reasoning that they did not sign, and reasoning that
	// comes back after a changed prefix.
	Bind bool
	// Cache makes the Messages API cache prompts up to the marks (cache_control), from
	// 1024 tokens on, and report the reads and writes as usage. Cached prompts do not
	// expire.
	Cache bool
	// Counter counts prompts and outputs. Nil: [tokens.Estimator].
	Counter tokens.Counter
	// Answer is the rule for requests that are not refused. It may be called
	// from several goroutines at once. Nil: [Echo].
	Answer Rule
	// Pace is called before each event of a streamed answer, with the context of the
	// request, to wait or to watch. If it returns an error, the connection breaks. Nil:
	// events follow each other at once.
	Pace func(ctx context.Context) error
	// Observe is called with the record of a request when its answer has ended, before
	// the client can see the end.
	Observe func(Recorded)
	// Keep is the number of last requests that [Model.Requests] and [Model.Invalid]
	// each remember. 0: 100; negative: all.
	Keep int

	ids   atomic.Int64 // counts answers of any kind
	mu    sync.Mutex   // guards the fields below
	stats Stats
	last  map[Outcome][]*Recorded // requests with any outcome are under ""
	// written holds the hashes of cached prefixes.
	written map[string]bool
}

// ServeHTTP implements [net/http.Handler]. It serves POST requests like the providers:
// Anthropic's /v1/messages, OpenAI's /v1/chat/completions and /v1/responses, and the
// paths of Gemini's generateContent and Bedrock's Converse, with their streams. If an
// answer requires a broken connection, it panics with [net/http.ErrAbortHandler].
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

// messages answers a request for a message. After an error the connection must be
// broken.
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
