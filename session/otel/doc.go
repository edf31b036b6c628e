// Package otel makes OpenTelemetry spans and metrics of sessions. It is a module of its
// own, on the API of OpenTelemetry.
//
//	recorder, err := otel.New(tracerProvider, meterProvider, nil)
//	store, err := session.Open(dir, &session.Options{Observe: recorder.Observe})
//
//	ctx, end := recorder.Turn(ctx, s)
//	err = turn.RunTools(ctx, s, 0, recorder.Tool(run))
//	end(err)
//
// The names of spans and attributes follow version [Conventions] of the GenAI semantic
// conventions, which are in Development. Names for facts that the conventions lack begin
// with "convolog.". No span holds words of a conversation, except those of
// [Recorder.Replay] on request. Texts of errors are left out, because they may quote one.
//
// Spans of model calls are left to the client of the model: its calls within a turn are
// parts of the turn, and the calls of a summarizer are parts of the compaction. The
// provider of a turn is unknown here, so its span lacks gen_ai.provider.name.
package otel
