package otel_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/convolog/convolog/session/otel"
)

var update = flag.Bool("update", false, "rewrite the trees in testdata")

// A lab is a Recorder with its spans and metrics in memory.
type lab struct {
	*otel.Recorder
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer // of another library
	reader *sdkmetric.ManualReader
}

func newLab(t testing.TB, opts *otel.Options) *lab {
	l := &lab{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))
	var err error
	l.Recorder, err = otel.New(tp, sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)), opts)
	require.NoError(t, err)
	l.tracer = tp.Tracer("client")
	return l
}

// tree returns the spans as text, each below its parent, in the order of their starts. IDs of
// entries are not printed. Every span must have ended.
func (l *lab) tree(t *testing.T) string {
	spans := l.spans.Started()
	require.Len(t, l.spans.Ended(), len(spans))
	names := map[trace.SpanID]string{}
	for i, s := range spans {
		names[s.SpanContext().SpanID()] = fmt.Sprint(i+1, " ", s.Name())
	}
	var text strings.Builder
	var write func(parent trace.SpanID, indent string)
	write = func(parent trace.SpanID, indent string) {
		for _, s := range spans {
			if s.Parent().SpanID() != parent {
				continue
			}
			fmt.Fprintf(&text, "%s%s (%s)%s\n", indent, names[s.SpanContext().SpanID()], s.SpanKind(), list(s.Attributes()))
			if s.Status().Code == codes.Error {
				fmt.Fprintf(&text, "%s  ! error%s\n", indent, s.Status().Description)
			}
			for _, link := range s.Links() {
				fmt.Fprintf(&text, "%s  -> %s\n", indent, names[link.SpanContext.SpanID()])
			}
			for _, e := range s.Events() {
				fmt.Fprintf(&text, "%s  * %s%s\n", indent, e.Name, list(e.Attributes))
			}
			write(s.SpanContext().SpanID(), indent+"    ")
		}
	}
	write(trace.SpanID{}, "")
	return text.String()
}

func list(attrs []attribute.KeyValue) (text string) {
	lines := make([]string, 0, len(attrs))
	for _, a := range attrs {
		lines = append(lines, fmt.Sprintf(" %s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// checkTree compares the spans with a file of testdata.
func (l *lab) checkTree(t *testing.T, name string) {
	t.Helper()
	got, file := l.tree(t), filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o666))
	}
	require.Equal(t, readTree(t, name), got)
}

// metrics returns the name, the attributes and the count of each metric, sorted.
func (l *lab) metrics(t *testing.T) (lines []string) {
	var all metricdata.ResourceMetrics
	require.NoError(t, l.reader.Collect(context.Background(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(attrs attribute.Set, n any) {
				lines = append(lines, fmt.Sprintf("%s%s: %v", m.Name, list(attrs.ToSlice()), n))
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Count)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func readTree(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}
