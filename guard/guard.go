package guard

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A Guard describes how to call one model. The zero value and nil are ready to
// use: they act only after an overflow. A Guard is plain data; [Do] does not
// change it, and a changed copy serves a single call. It may be used by several
// goroutines.
type Guard struct {
	// Model, System, Tools and MaxOutput go into every [Call]; the prompt that the
	// history keeps and its system prefix come after System. A System or Tools other
	// than before is an edit: the provider's cache and the reasoning so far are lost.
	// A session that keeps its prompt, as entries of the type [transcript.System],
	// only adds to earlier requests, and so does one that names the callable Tools,
	// by [transcript.Tools]. MaxOutput is in tokens; 0 leaves it to the call, unless
	// less than 8,192 are left in the window.
	Model     string
	System    string
	Tools     []transcript.Tool
	MaxOutput int
	// Endpoint names the service and the account that calls go to: a base URL, a
	// deployment, the name of a key. What the [Guard] learns of a model counts for
	// this endpoint, and reasoning that only its maker can read goes to no other.
	// Empty: not known.
	Endpoint string
	// Takes are the limits of the service, such as TakesOf of package wire returns.
	// With the limits in a [Calibrated] history it goes into every call. Media and
	// messages above its numbers make room before the call.
	Takes transcript.Takes
	// Format renders a request as the calls do: the Format of the API in package wire.
	// With it Do finds the part of a request that an error names by its place, as in
	// "messages.3.content.1". Nil: places are not followed.
	Format interface {
		Request(req transcript.Request) (body []byte, report rebuild.Report, err error)
	}
	// Window is the context window of the model in tokens; 0: not known. If it
	// is known, requests too long by estimate are made smaller before they are
	// sent. A [Calibrated] history may have a smaller one.
	Window int
	// CutsSilently is for a server that drops the front of a prompt that is too
	// long without an error, as Ollama does by default. A reported prompt far
	// below the estimate is then an overflow of the kind [Silent]. Set it only
	// if [Outcome].Usage includes cached tokens: without them every answer
	// looks like that.
	CutsSilently bool
	// Counter estimates tokens; nil means tokens.Estimator.
	Counter tokens.Counter
	// Stages make the history smaller, in this order; nil means Media,
	// Clip and Compact.
	Stages []Stage
	// Patterns judge errors before the rules of [Classify].
	Patterns []Pattern
	// Inspect returns the stop reason and the usage of an answer that is not a
	// transcript.Response or a pointer to one; ok is false if they are unknown.
	// It must not modify the answer.
	Inspect func(answer any) (outcome Outcome, ok bool)
	// Observe receives events about all steps but the call; nil is silent. It
	// is called in Do's goroutine.
	Observe func(ctx context.Context, e Event)
}

// Outcome describes an answer to a [Guard].
type Outcome struct {
	StopReason transcript.StopReason
	Usage      transcript.Usage
	// Empty is set if the answer contains neither a text nor a call.
	Empty bool
}

// Call is one request to send.
type Call struct {
	// Request has the history and what the [Guard] says. Its slices are the
	// call's own, the blocks in them are shared and must not be modified.
	transcript.Request
	// Made records the content of the request. Do puts it into an answer that
	// is a transcript.Response or a pointer to one; of any other answer the
	// application copies it into the response that it appends.
	Made transcript.Made
	// Attempt counts from 0.
	Attempt int
	// Overflow is the reason of a further attempt; nil for the first one. An
	// application that streams must then discard the text shown of the last
	// attempt.
	Overflow *Overflow
}

// Event is something that [Do] has done.
type Event struct {
	Kind    EventKind
	Attempt int // of the call
	// Overflow is what the event is about.
	Overflow Overflow
	// Unsent is set if nothing was sent, because it could not fit by estimate.
	Unsent  bool
	Stage   string // of EventStage
	Changed bool   // whether the history has changed
	// Before and After are the size of the prompt in tokens, by estimate.
	Before, After int
	MaxOutput     int // of the next attempt
	// Learned is the calibration that an EventLearned committed. In an EventRefused
	// it is the cure of a refused part: tried, or proven if Changed is set.
	Learned transcript.Calibration
	// Dropped is the provider's report of an EventDropped, as JSON.
	Dropped json.RawMessage
	// Err is the error of a stage or of committing a calibration; of
	// EventFailed: the error of Do; of an EventRefused that tries: the refusal.
	Err error
}

// EventKind is the subject of an [Event].
type EventKind string

// The kinds of events.
const (
	EventOverflow EventKind = "overflow" // the prompt is too long, or an answer was cut because the window is full
	EventStage    EventKind = "stage"    // a stage has run
	EventOutput   EventKind = "output"   // less is reserved for the output
	EventRetry    EventKind = "retry"    // the model is called again
	EventFailed   EventKind = "failed"   // nothing is left to be done
	EventLearned  EventKind = "learned"  // the window or the factor of the estimate was committed
	EventRefused  EventKind = "refused"  // a part was refused: it is left out or changed
	EventDropped  EventKind = "dropped"  // the provider has answered and left out reasoning of the request
)

// request makes the request for a history, as the model of a calibration takes it.
func (g *Guard) request(h rebuild.History, c transcript.Calibration) (transcript.Request, transcript.Made) {
	c.Endpoint = g.Endpoint
	req := transcript.Request{Model: g.Model, System: h.SystemPrompt(g.System), Tools: g.Tools, MaxOutput: g.MaxOutput, Takes: c.Takes().And(g.Takes)}
	made := transcript.Made{After: h.After, PromptHash: rebuild.PromptHash(req.System, req.Tools), Endpoint: g.Endpoint}
	c.Without = req.Takes.Without
	messages, mark := rebuild.For(h.Messages, c)
	req.Messages, made.Thought = rebuild.Reasoned(messages, made.PromptHash)
	made.PromptHash += mark
	return req, made
}

func (g *Guard) inspect(r *transcript.Response, answer any) (Outcome, bool) {
	if _, missing := answer.(*transcript.Response); r == nil {
		if missing || g.Inspect == nil {
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

// Client is a model. An application implements it once, for everything in this
// module that calls a model. [Do] takes a function instead, whose result may be
// of any type.
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

// Calibrated is a [History] that keeps the entries of the type
// [transcript.Calibration] in which [Do] records its findings about models, for
// later Dos and restarts. A session is one; a wrapper of a session must pass
// the method on. With any other history Do appends none.
type Calibrated interface {
	History
	// Calibration returns the findings about a model at an endpoint in the entries
	// so far; the zero value without any.
	Calibration(ctx context.Context, model, endpoint string) (transcript.Calibration, error)
}

// Compactor is a [History] whose older part can be replaced by a summary. A
// session is one; what wraps a session has to pass the method on.
type Compactor interface {
	History
	// CompactFor makes the history smaller, to at most n.Room tokens as n.Counter
	// counts them if that is possible. It reports whether the history has changed.
	// An error without a change means that it has not; with a change it reports a
	// partial failure. A change that gains too little of n.Window may be skipped
	// if the request is too long by estimate alone.
	CompactFor(ctx context.Context, n Need) (changed bool, err error)
}
