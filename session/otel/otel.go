package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/convolog/convolog/session"
)

const scope = "github.com/convolog/convolog/session/otel"

// Options of [New]. The zero value adds nothing to a transcript.
type Options struct {
	// Links makes [Recorder.Turn] keep its span as a value of the session and link to
	// the span of the turn before, which another process may have run. That costs an
	// append for each turn. Without it, gen_ai.conversation.id connects the turns.
	Links bool
}

// A Recorder makes spans and metrics of the operations on sessions. It is safe for
// several goroutines and for several stores.
type Recorder struct {
	tracer    trace.Tracer
	opts      Options
	durations map[string]metric.Float64Histogram // by operation
	written   metric.Int64Histogram
	tokens    metric.Int64Histogram
	events    metric.Int64Counter
}

// New returns a Recorder that sends its spans to a tracer of tp and its metrics to a meter
// of mp. The error comes from a meter that refuses an instrument. Nil options are the
// defaults.
func New(tp trace.TracerProvider, mp metric.MeterProvider, opts *Options) (*Recorder, error) {
	r := &Recorder{tracer: tp.Tracer(scope), durations: map[string]metric.Float64Histogram{}}
	if opts != nil {
		r.opts = *opts
	}
	meter, buckets := mp.Meter(scope), []float64{.0001, .001, .01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	var errs []error
	for operation, name := range durations {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(buckets...))
		r.durations[operation], errs = h, append(errs, err)
	}
	var err error
	r.written, err = meter.Int64Histogram("convolog.append.size", metric.WithUnit("By"))
	errs = append(errs, err)
	r.tokens, err = meter.Int64Histogram("convolog.compact.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Sizes of histories after compactions, by the counter of the store."))
	errs = append(errs, err)
	r.events, err = meter.Int64Counter("convolog.events", metric.WithUnit("{event}"),
		metric.WithDescription("Repairs, damage, panics of tools, steps of summarizers and skipped compactions."))
	return r, errors.Join(append(errs, err)...)
}

type kv = attribute.KeyValue

// An operation is a span with a duration.
type operation struct {
	span   trace.Span
	began  time.Time
	name   string
	ref    session.Ref
	labels []kv // of the span and of the duration
}

// inside is the context key of the innermost operation on a session.
type inside struct{}

// start begins an operation with its own context. The name of its span is the name of the
// operation and the object.
func (r *Recorder) start(ctx context.Context, name, object string, o *operation, opts ...trace.SpanStartOption) context.Context {
	if o.name = name; object != "" {
		name += " " + object
	}
	if o.began.IsZero() {
		o.began = time.Now()
	}
	attrs := append(make([]kv, 0, 4), o.labels...)
	if o.ref.ID != "" {
		attrs = append(attrs, conversation.String(o.ref.ID), agentName.String(o.ref.Agent))
	}
	ctx, o.span = r.tracer.Start(ctx, name, append(opts, trace.WithTimestamp(o.began), trace.WithAttributes(attrs...))...)
	return context.WithValue(ctx, inside{}, o)
}

// end ends an operation and records its duration.
func (r *Recorder) end(ctx context.Context, o *operation, err error) {
	now := time.Now()
	labels := append(make([]kv, 0, 4), o.labels...)
	if labels = append(labels, agentName.String(o.ref.Agent)); err != nil {
		failed(o.span, err)
		labels = append(labels, errorType.String(typeOf(err)))
	}
	r.durations[o.name].Record(ctx, now.Sub(o.began).Seconds(), metric.WithAttributes(labels...))
	o.span.End(trace.WithTimestamp(now))
}

// failed records an error in a span.
func failed(span trace.Span, err error) {
	span.SetAttributes(errorType.String(typeOf(err)))
	span.SetStatus(codes.Error, "")
}

// ended returns the operation that an event ends. A feature that stores a compaction
// reports no start, so the operation began before the event.
func (r *Recorder) ended(ctx context.Context, e session.Event, name string) *operation {
	o, _ := ctx.Value(inside{}).(*operation)
	if o == nil || o.name != name || o.ref != e.Session {
		o = &operation{ref: e.Session, began: time.Now().Add(-e.Took)}
		r.start(ctx, name, "", o)
	}
	return o
}

// leaf records an operation that has ended and had no parts.
func (r *Recorder) leaf(ctx context.Context, e session.Event, name string, attr kv) {
	o := &operation{name: name, ref: e.Session, span: noop.Span{}, began: time.Now().Add(-e.Took)}
	if trace.SpanFromContext(ctx).IsRecording() { // else it is work in the background
		r.start(ctx, name, "", o)
		o.span.SetAttributes(attr)
	}
	r.end(ctx, o, e.Err)
}

// Observe is for [session.Options].Observe. Appends and compactions become spans, and so
// do syncs and waits for locks within another span. Other events become events of the
// span in which they occur.
func (r *Recorder) Observe(ctx context.Context, e session.Event) context.Context {
	agent := metric.WithAttributes(agentName.String(e.Session.Agent))
	switch e.Kind {
	case session.EventAppendStart:
		return r.start(ctx, spanAppend, "", &operation{ref: e.Session})
	case session.EventCompactionStart:
		return r.start(ctx, spanCompact, "", &operation{ref: e.Session})
	case session.EventAppend:
		o := r.ended(ctx, e, spanAppend)
		o.span.SetAttributes(entries.Int(e.Entries), size.Int(e.Bytes))
		r.written.Record(ctx, int64(e.Bytes), agent)
		r.end(ctx, o, e.Err)
	case session.EventCompactionDone:
		o := r.ended(ctx, e, spanCompact)
		o.span.SetAttributes(compacted.Bool(true), standIn.Bool(e.StandIn),
			tokensBefore.Int(e.Compaction.TokensBefore), tokensAfter.Int(e.Compaction.TokensAfter))
		r.tokens.Record(ctx, int64(e.Compaction.TokensAfter), agent)
		r.end(ctx, o, e.Err)
	case session.EventCompactionFailed:
		if e.Err == nil {
			e.Err = errPanic
		}
		r.end(ctx, r.ended(ctx, e, spanCompact), e.Err)
	case session.EventSync:
		r.leaf(ctx, e, spanSync, size.Int(e.Bytes))
	case session.EventWait:
		r.leaf(ctx, e, spanWait, lock.String(e.Lock))
	default:
		r.events.Add(ctx, 1, agent, metric.WithAttributes(eventKind.String(string(e.Kind))))
		trace.SpanFromContext(ctx).AddEvent("convolog."+string(e.Kind), trace.WithAttributes(conversation.String(e.Session.ID)))
	}
	return ctx
}
