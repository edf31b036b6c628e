package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/otel"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// show prints the name of each span.
func show(spans tracetest.SpanStubs) {
	for _, s := range spans {
		fmt.Println(s.Name)
	}
}

// The parts of a span end before it.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter() // an exporter of yours
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	recorder, err := otel.New(tracers, noop.NewMeterProvider(), &otel.Options{Appends: true})
	if err != nil {
		log.Fatal(err)
	}
	store := session.OpenDriver(memdriver.New(nil), &session.Options{Observe: recorder.Observe})
	defer store.Close()
	s, err := store.Create(ctx, session.Key{Agent: "clerk"}, nil)
	if err != nil {
		log.Fatal(err)
	}

	weather := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, "It rains."), nil
	}
	runTurn := func(ctx context.Context, text string) (err error) {
		ctx, end := recorder.Turn(ctx, s)
		defer func() { end(err) }()
		call := transcript.ToolCallBlock{ID: "c1", Name: "weather", Input: []byte(`{}`)}
		asked := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{call}}
		if _, err := s.Append(ctx, transcript.UserText(text), asked); err != nil {
			return err
		}
		return turn.RunTools(ctx, s, 0, recorder.Tool(weather))
	}
	if err := runTurn(ctx, "Do I need an umbrella?"); err != nil {
		log.Fatal(err)
	}
	show(spans.GetSpans())
	// Output:
	// convolog.append
	// convolog.append
	// execute_tool weather
	// convolog.append
	// invoke_agent clerk
}

// A search in the memories is a span with the number of its hits.
func ExampleRecorder_Memory() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	recorder, err := otel.New(trace.NewTracerProvider(trace.WithSyncer(spans)), noop.NewMeterProvider(), nil)
	if err != nil {
		log.Fatal(err)
	}
	search := func(context.Context, string) ([]string, error) { return []string{"likes tea"}, nil }

	var hits []string
	err = recorder.Memory(ctx, "search_memory", func(ctx context.Context) (n int, err error) {
		hits, err = search(ctx, "tea")
		return len(hits), err
	})
	fmt.Println(hits, err)
	show(spans.GetSpans())
	// Output:
	// [likes tea] <nil>
	// search_memory
}

// A stored session as spans with its lines.
func ExampleRecorder_Replay() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	recorder, err := otel.New(trace.NewTracerProvider(trace.WithSyncer(spans)), noop.NewMeterProvider(), nil)
	if err != nil {
		log.Fatal(err)
	}
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	s, err := store.Create(ctx, session.Key{Agent: "clerk"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Hello."), transcript.AssistantText("Hi.")); err != nil {
		log.Fatal(err)
	}

	err = recorder.Replay(ctx, s, func(e transcript.Entry) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("app.line", string(e.Line()))} // everything
	})
	fmt.Println(err)
	show(spans.GetSpans())
	// Output:
	// <nil>
	// chat
	// invoke_agent clerk
}
