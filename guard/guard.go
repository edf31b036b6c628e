package guard

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Guard is what there is to know about the calls to one model. The zero value
// and nil are ready to use: nothing is done before an overflow. A Guard is
// plain data; [Do] does not change it, and a changed copy serves a single call.
// It may be used by several goroutines.
type Guard struct {
	// Model, System, Tools and MaxOutput go into every [Call]; the prompt that
	// the history keeps and its system prefix come after System. A System or
	// Tools other than before is an edit: the provider's cache and the reasoning
	// so far are lost. A session that keeps its prompt, as entries of the type
	// [transcript.System], only adds to what was sent, and so does one that says
	// which of the Tools may be called, by [transcript.Tools]. MaxOutput is in
	// tokens; 0 leaves it to the call, unless less than 8,192 are left in the window.
	Model     string
	System    string
	Tools     []transcript.Tool
	MaxOutput int
	// Window is the context window of the model in tokens; 0: not known. If it
	// is known, what is too long by estimate is made smaller before it is sent.
	// A [Calibrated] history may know of a smaller one.
	Window int
	// CutsSilently says that the server of the model drops the front of a
	// prompt that is too long and says nothing, as Ollama does by default. A
	// reported prompt far below the estimate is then an overflow of the kind
	// [Silent]. Do not set it unless [Outcome].Usage has the tokens that came
	// from a cache: without them it looks just the same.
	CutsSilently bool
	// Counter estimates tokens; nil means tokens.Estimator.
	Counter tokens.Counter
	// Stages make the history smaller, in this order; nil means Media,
	// Clip and Compact.
	Stages []Stage
	// Patterns are asked about errors before the rules of [Classify].
	Patterns []Pattern
	// Inspect tells why the model stopped and what the provider counted, for
	// an answer that is not a transcript.Response or a pointer to one; ok is
	// false if it is not known. It must not modify the answer.
	Inspect func(answer any) (outcome Outcome, ok bool)
	// Observe is told what Do does besides the call; nil is silent. It is
	// called in Do's goroutine.
	Observe func(ctx context.Context, e Event)
}

// Outcome is what a [Guard] wants to know about an answer.
type Outcome struct {
	StopReason transcript.StopReason
	Usage      transcript.Usage
	// Empty says that there is nothing in the answer, neither a text nor a call.
	Empty bool
}

// Call is what is to be sent.
type Call struct {
	// Request has the history and what the [Guard] says. Its slices are the
	// call's own, the blocks in them are shared and must not be modified.
	transcript.Request
	// Made says what the request holds. Do puts it into an answer that is a
	// transcript.Response or a pointer to one; of any other answer the
	// application copies it into the response that it appends.
	Made transcript.Made
	// Attempt counts from 0.
	Attempt int
	// Overflow is why there is another attempt; nil for the first one. An
	// application that streams answers then knows that what it has shown of
	// the last attempt is void.
	Overflow *Overflow
}

// Event is something that [Do] has done.
type Event struct {
	Kind    EventKind
	Attempt int // of the call
	// Overflow is what the event is about.
	Overflow Overflow
	// Unsent says that nothing was sent, because it could not fit by estimate.
	Unsent  bool
	Stage   string // of EventStage
	Changed bool   // of EventStage: whether it changed the history
	// Before and After are the size of the prompt in tokens, by estimate.
	Before, After int
	MaxOutput     int // of the next attempt
	// Learned is what an EventLearned has committed.
	Learned transcript.Calibration
	// Dropped is what the provider said of an EventDropped, as JSON.
	Dropped json.RawMessage
	// Err is why a stage failed or what was learned could not be committed; of
	// EventFailed: what Do returns.
	Err error
}

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	EventOverflow EventKind = "overflow" // the prompt is too long, or an answer was cut because the window is full
	EventStage    EventKind = "stage"    // a stage has run
	EventOutput   EventKind = "output"   // less is reserved for the output
	EventRetry    EventKind = "retry"    // the model is called again
	EventFailed   EventKind = "failed"   // nothing is left to be done
	EventLearned  EventKind = "learned"  // the window or the factor of the estimate was committed
	EventBare     EventKind = "bare"     // the reasoning was refused: the model is called again without any
	EventDropped  EventKind = "dropped"  // the provider has answered and left out reasoning of the request
)

// request makes the request for a history, bare without any reasoning.
func (g *Guard) request(h rebuild.History, bare bool) (transcript.Request, transcript.Made) {
	req := transcript.Request{Model: g.Model, System: h.SystemPrompt(g.System), Tools: g.Tools, MaxOutput: g.MaxOutput}
	made := transcript.Made{After: h.After, PromptHash: rebuild.PromptHash(req.System, req.Tools)}
	if bare {
		req.Messages = rebuild.WithoutReasoning(h.Messages)
	} else {
		req.Messages, made.Thought = rebuild.Reasoned(h.Messages, made.PromptHash)
	}
	return req, made
}

func (g *Guard) inspect(answer any) (Outcome, bool) {
	if p, ok := answer.(*transcript.Response); ok {
		if p == nil {
			return Outcome{}, false
		}
		answer = *p
	}
	r, ok := answer.(transcript.Response)
	if !ok {
		if g.Inspect == nil {
			return Outcome{}, false
		}
		return g.Inspect(answer)
	}
	o := Outcome{StopReason: r.StopReason, Usage: r.Usage, Empty: true}
	for _, b := range r.Message.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			o.Empty = o.Empty && strings.TrimSpace(b.Text) == ""
		case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		default:
			o.Empty = false
		}
	}
	return o, true
}

// Client is a model: what an application implements once, for its own model,
// to use whatever in this module asks one. [Do] does not need it: it takes a
// function, whose result may be of any type.
type Client interface {
	// Complete sends a request and returns the answer. An answer that was cut
	// is returned with the error, if there is anything of it.
	Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error)
}

// History is the conversation that a call is about. A session is one.
type History interface {
	// History returns what the model is to be shown.
	History(ctx context.Context) (rebuild.History, error)
	// Append commits entries.
	Append(ctx context.Context, items ...transcript.Item) ([]string, error)
}

// Calibrated is a [History] that keeps what [Do] learns about models, so that
// the next Do knows it, also after a restart: the entries of the type
// [transcript.Calibration] that Do appends. A session is one; what wraps a
// session has to pass the method on. With any other history Do appends none.
type Calibrated interface {
	History
	// Calibration returns what the entries so far say about a model, the zero
	// value if they say nothing.
	Calibration(ctx context.Context, model string) (transcript.Calibration, error)
}

// Compactor is a [History] whose older part can be replaced by a summary. A
// session is one; what wraps a session has to pass the method on.
type Compactor interface {
	History
	// CompactFor makes the history smaller, to at most n.Room tokens as n.Counter
	// counts them if that is possible. It reports whether the history has changed.
	// An error without a change means that it has not; with one it says what has
	// failed on the way. One that gains too little of n.Window need not be made if
	// the request is too long by estimate alone: an estimate is no proof.
	CompactFor(ctx context.Context, n Need) (changed bool, err error)
}
