package otel

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// linkValue is the value of a session that holds the span of its last turn, as the
// members of the W3C trace context.
const linkValue = "otel.turn"

// Turn begins the span "invoke_agent" of a turn. Pass the returned context to all calls of
// the turn, and call end once with the error of the turn.
//
// With [Options].Links the span links to the last turn of the session. If the session
// cannot be read or appended to, the span records an event "convolog.link-failed", and
// the turn continues.
func (r *Recorder) Turn(ctx context.Context, s *session.Session) (_ context.Context, end func(err error)) {
	o := &operation{ref: s.Ref(), labels: []kv{operationName.String(invokeAgent)}}
	end = func(err error) { r.end(ctx, o, err) }
	if !r.opts.Links {
		return r.start(ctx, invokeAgent, o.ref.Agent, o), end
	}
	link, err := lastTurn(ctx, s)
	ctx = r.start(ctx, invokeAgent, o.ref.Agent, o, trace.WithLinks(link...))
	if err == nil {
		err = keepTurn(ctx, s)
	}
	if err != nil {
		o.span.AddEvent("convolog.link-failed", trace.WithAttributes(errorType.String(typeOf(err))))
	}
	return ctx, end
}

// lastTurn returns a link to the span that keepTurn kept, if there is one.
func lastTurn(ctx context.Context, s *session.Session) (link []trace.Link, err error) {
	values, err := turn.Values(ctx, s)
	i := slices.IndexFunc(values, func(v rebuild.Value) bool { return v.Name == linkValue })
	if i < 0 {
		return nil, err
	}
	carrier := propagation.MapCarrier{}
	err = json.Unmarshal(values[i].Value, &carrier)
	last := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if last.IsValid() {
		link = []trace.Link{{SpanContext: last}}
	}
	return link, err
}

// keepTurn keeps the span of ctx as a value of the session.
func keepTurn(ctx context.Context, s *session.Session) error {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return nil
	}
	value, err := json.Marshal(carrier)
	if err == nil {
		_, err = turn.SetValue(ctx, s, linkValue, value, "")
	}
	return err
}

// Tool returns run with a span "execute_tool" for each call. It is for [turn.RunTools].
func (r *Recorder) Tool(run turn.Tool) turn.Tool {
	return func(ctx context.Context, call rebuild.PendingCall) (result transcript.Message, err error) {
		o := &operation{ref: refOf(ctx), labels: []kv{operationName.String(executeTool), toolName.String(call.Call.Name)}}
		ctx = r.start(ctx, executeTool, call.Call.Name, o)
		o.span.SetAttributes(toolCallID.String(call.Call.ID))
		outcome := errPanic
		defer func() { r.end(ctx, o, outcome) }()
		result, err = run(ctx, call)
		switch outcome = err; {
		case errors.Is(err, turn.ErrLater):
			outcome = nil
		case err == nil && isError(result):
			outcome = errTool
		}
		return result, err
	}
}

// isError reports whether a message holds the error of a tool.
func isError(m transcript.Message) bool {
	for _, b := range m.Content {
		if b, ok := b.(transcript.ToolResultBlock); ok && b.IsError {
			return true
		}
	}
	return false
}

// Memory calls f in the span of a memory operation and returns its error. The name is a
// gen_ai.operation.name: create_memory, search_memory, update_memory, upsert_memory or
// delete_memory. F returns how many memories it has read or changed, or -1 if that is
// unknown.
func (r *Recorder) Memory(ctx context.Context, name string, f func(ctx context.Context) (records int, err error)) (err error) {
	o := &operation{ref: refOf(ctx), labels: []kv{operationName.String(name)}}
	ctx = r.start(ctx, name, "", o)
	o.name = memory
	outcome := errPanic
	defer func() { r.end(ctx, o, outcome) }()
	records, err := f(ctx)
	if outcome = err; err == nil && records >= 0 {
		o.span.SetAttributes(recordCount.Int(records))
	}
	return err
}

// refOf returns the session of the operation in progress.
func refOf(ctx context.Context) session.Ref {
	if o, _ := ctx.Value(inside{}).(*operation); o != nil {
		return o.ref
	}
	return session.Ref{}
}
