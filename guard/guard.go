package guard

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A Guard describes how to call one model. The zero value and nil are ready to use.
// Without limits in the Guard and without earlier findings, Do changes a request only
// after an error or an empty answer. A Guard is plain data that [Do] does not change,
// and several goroutines may share it. To change a setting for one call, pass a changed
// copy.
type Guard struct {
	// Model, System, Tools and MaxOutput go into every [Call]. The prompt and the
	// system prefix of the history follow System. Changing System or Tools edits
	// earlier requests: the provider's cache and the reasoning so far are lost. Prompts
	// in the session, as [transcript.System] entries, only add to earlier requests. So
	// do names of the callable Tools, as [transcript.Tools]. MaxOutput is in tokens. 0
	// leaves it to the call, unless less than 8,192 are left in the window.
	Model     string
	System    string
	Tools     []transcript.Tool
	MaxOutput int
	// Endpoint names the service and the account for the calls, for example by a base
	// URL, a deployment, or the name of a key. Findings about a model count for this
	// endpoint alone, and reasoning that only its maker can read goes to no other
	// endpoint. Empty means unknown.
	Endpoint string
	// Takes are the limits of the service, for example from TakesOf of package wire.
	// They go into every call, combined with the limits in a [Calibrated] history.
	// Before a call, Do replaces media above these limits by notes, and runs the stages
	// if there are too many messages.
	Takes transcript.Takes
	// Format renders a request as the calls do: the Format of the API in package wire.
	// Do needs it to find the part of a request at a place that an error names, such as
	// "messages.3.content.1". With nil, Do ignores places.
	Format interface {
		Request(req transcript.Request) (body []byte, report rebuild.Report, err error)
	}
	// Window is the context window of the model in tokens; 0 means unknown. If the
	// window is known, Do shrinks a request that is too long by estimate before sending
	// it. A smaller window in a [Calibrated] history takes precedence.
	Window int
	// CutsSilently is for a server that cuts the front of a long prompt without an
	// error, as Ollama does by default. A reported prompt far below the estimate then
	// counts as an overflow of the kind [Silent]. Set it only if [Outcome].Usage
	// includes cached tokens: otherwise answers with cached tokens look the same.
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
	// Observe receives an event for every step except the call itself. It runs in the
	// goroutine of Do. Nil receives none.
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
	// Request combines the history with the settings of the [Guard]. The call owns its
	// slices. The blocks in them are shared and must not be modified.
	transcript.Request
	// Made records the content of the request. Do puts it into an answer that is a
	// transcript.Response or a pointer to one. From any other answer, the application
	// copies Made into the response that it appends.
	Made transcript.Made
	// Attempt counts calls from 0.
	Attempt int
	// Overflow is the reason for a repeated attempt; nil for the first one. On a
	// repeated attempt, an application that streams must discard the text that it has
	// shown of the last one.
	Overflow *Overflow
}

// Event reports a step of [Do].
type Event struct {
	Kind    EventKind
	Attempt int // the call, from 0
	// Overflow is the overflow or refusal that caused the step, if there is one.
	Overflow Overflow
	// Unsent is set if the request was too large by estimate, and was not sent.
	Unsent  bool
	Stage   string // the stage of an EventStage
	Changed bool   // whether the history has changed
	// Before and After are estimates of the prompt before and after the step, in
	// tokens.
	Before, After int
	MaxOutput     int // the output limit of the next attempt
	// Learned is the calibration that an EventLearned committed. In an EventRefused it
	// is the cure of the refused part. The cure is proven if Changed is set, and on
	// trial otherwise.
	Learned transcript.Calibration
	// Dropped is the provider's report in an EventDropped, as JSON.
	Dropped json.RawMessage
	// Err is the error of a stage, or of committing a calibration. In an EventFailed it
	// is the error of Do. In an EventRefused with a cure on trial it is the refusal.
	Err error
}

// EventKind is the subject of an [Event].
type EventKind string

// The kinds of events.
const (
	EventOverflow EventKind = "overflow" // the request is too large, or a full window cut an answer
	EventStage    EventKind = "stage"    // a stage has run
	EventOutput   EventKind = "output"   // less is reserved for the output
	EventRetry    EventKind = "retry"    // the model is called again
	EventFailed   EventKind = "failed"   // no remedy is left
	EventLearned  EventKind = "learned"  // a calibration was committed, such as the window or the factor of the estimate
	EventRefused  EventKind = "refused"  // a part was refused: it is left out or changed
	EventDropped  EventKind = "dropped"  // the provider answered, but left out reasoning of the request
)

// request makes the request for a history, in the form that the calibrated model takes.
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

// Client is a model. An application implements it once for all packages in this module
// that call a model, or uses a client of package guard/httpclient. [Do] takes a function
// instead, whose result may be of any type.
type Client interface {
	// Complete sends a request and returns the answer. If an error cuts the answer, it
	// returns the received part with the error.
	Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error)
}

// A History is the conversation of a call. A session is one.
type History interface {
	// History returns the history to show to the model.
	History(ctx context.Context) (rebuild.History, error)
	// Append commits entries.
	Append(ctx context.Context, items ...transcript.Item) ([]string, error)
}

// Calibrated is a [History] that keeps entries of the type [transcript.Calibration]. In
// these [Do] records its findings about models, for later calls of Do and for restarts.
// A session is one; a wrapper of a session must pass the method on. To any other
// history Do appends no findings.
type Calibrated interface {
	History
	// Calibration returns the findings so far about a model at an endpoint, or the zero
	// value without any.
	Calibration(ctx context.Context, model, endpoint string) (transcript.Calibration, error)
}

// Compactor is a [History] whose older part can be replaced by a summary. A session is
// one; a wrapper of a session must pass the method on.
type Compactor interface {
	History
	// CompactFor makes the history smaller: to at most n.Room tokens by n.Counter, if
	// that is possible. It reports whether the history has changed. An error without a
	// change means that nothing has changed; with a change it reports a partial
	// failure. If the request is too long only by estimate, CompactFor may skip a
	// change that gains too little of n.Window.
	CompactFor(ctx context.Context, n Need) (changed bool, err error)
}
