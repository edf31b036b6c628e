package otel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/convolog/convolog/session"
)

const scope = "github.com/convolog/convolog/session/otel"

// Options of [New]. The zero value adds nothing to a transcript.
type Options struct {
	// Appends makes a span of every append, with the spans of filters and of the driver
	// as its parts. A span costs a tenth of an append with a sync, and more of one
	// without, so otherwise only appends that fail become spans.
	Appends bool
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
	tokens    metric.Int64Histogram
	events    metric.Int64Counter
	agents    sync.Map // metric.MeasurementOption by the name of an agent, made once
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
	labels []kv         // of the span and of the duration
	synced atomic.Int64 // nanoseconds of an append; any goroutine reports a sync
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
	now, labels := time.Now(), o.labels
	if err != nil {
		failed(o.span, err)
		labels = append(slices.Clip(labels), errorType.String(typeOf(err)))
	}
	r.took(ctx, o.name, now.Sub(o.began), o.ref, labels...)
	o.span.End(trace.WithTimestamp(now))
}

// took records a duration.
func (r *Recorder) took(ctx context.Context, name string, d time.Duration, ref session.Ref, labels ...kv) {
	opts := append(make([]metric.RecordOption, 0, 2), r.agent(ref))
	if len(labels) > 0 {
		opts = append(opts, metric.WithAttributes(labels...))
	}
	r.durations[name].Record(ctx, d.Seconds(), opts...)
}

// agent returns the attribute of the agent of a session.
func (r *Recorder) agent(ref session.Ref) metric.MeasurementOption {
	if known, ok := r.agents.Load(ref.Agent); ok {
		return known.(metric.MeasurementOption)
	}
	made := metric.WithAttributeSet(attribute.NewSet())
	if ref.Agent != "" { // else the operation is outside of a turn
		made = metric.WithAttributeSet(attribute.NewSet(agentName.String(ref.Agent)))
	}
	r.agents.Store(ref.Agent, made)
	return made
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

// Observe is for [session.Options].Observe. Compactions and failed appends become spans.
// Appends, syncs and waits for locks become metrics, and other events become events of the
// span in which they occur.
func (r *Recorder) Observe(ctx context.Context, e session.Event) context.Context {
	switch e.Kind {
	case session.EventAppendStart:
		if r.opts.Appends {
			return r.start(ctx, spanAppend, "", &operation{ref: e.Session})
		}
	case session.EventCompactionStart:
		return r.start(ctx, spanCompact, "", &operation{ref: e.Session})
	case session.EventAppend:
		if !r.opts.Appends && e.Err == nil {
			r.took(ctx, spanAppend, e.Took, e.Session)
			return ctx
		}
		o := r.ended(ctx, e, spanAppend)
		o.span.SetAttributes(entries.Int(e.Entries), size.Int(e.Bytes), synced.Float64(time.Duration(o.synced.Load()).Seconds()))
		r.end(ctx, o, e.Err)
	case session.EventCompactionDone:
		o := r.ended(ctx, e, spanCompact)
		o.span.SetAttributes(compacted.Bool(true), standIn.Bool(e.StandIn),
			tokensBefore.Int(e.Compaction.TokensBefore), tokensAfter.Int(e.Compaction.TokensAfter))
		r.tokens.Record(ctx, int64(e.Compaction.TokensAfter), r.agent(e.Session))
		r.end(ctx, o, e.Err)
	case session.EventCompactionFailed:
		if e.Err == nil {
			e.Err = errPanic
		}
		r.end(ctx, r.ended(ctx, e, spanCompact), e.Err)
	case session.EventSync:
		if o, _ := ctx.Value(inside{}).(*operation); o != nil {
			o.synced.Add(int64(e.Took))
		}
		r.took(ctx, syncs, e.Took, e.Session)
	case session.EventWait:
		r.took(ctx, waits, e.Took, e.Session, lock.String(e.Lock))
	default:
		r.events.Add(ctx, 1, r.agent(e.Session), metric.WithAttributes(eventKind.String(string(e.Kind))))
		trace.SpanFromContext(ctx).AddEvent("convolog."+string(e.Kind), trace.WithAttributes(conversation.String(e.Session.ID)))
	}
	return ctx
}
