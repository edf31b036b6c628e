package otel_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/otel"
	"github.com/convolog/convolog/transcript"
)

// BenchmarkAppend appends 1 KiB by turns to a store without a Recorder, to one with a
// Recorder, and to one with spans of appends. It reports the median of the first, and of
// the differences to it.
func BenchmarkAppend(b *testing.B) {
	for name, policy := range map[string]session.SyncPolicy{"sync": session.SyncAlways, "nosync": session.SyncNever} {
		b.Run("1KiB/"+name, func(b *testing.B) {
			tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
			mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
			defer func() { require.NoError(b, tp.Shutdown(context.Background())) }()
			stores := []*session.Options{{Sync: policy}, {Sync: policy}, {Sync: policy}}
			for i, opts := range []*otel.Options{nil, {Appends: true}} {
				r, err := otel.New(tp, mp, opts)
				require.NoError(b, err)
				stores[i+1].Observe = r.Observe
			}
			sessions, took := make([]*session.Session, 3), make([]time.Duration, 3)
			more := make([][]time.Duration, 3) // than the bare one, which has its own time
			for i, opts := range stores {
				store, err := session.Open(b.TempDir(), opts)
				require.NoError(b, err)
				defer func() { require.NoError(b, store.Close()) }()
				sessions[i], err = store.Create(b.Context(), session.Key{}, nil)
				require.NoError(b, err)
			}
			text := transcript.UserText(strings.Repeat("x", 1<<10))
			for n := 0; b.Loop(); n++ {
				for i := range sessions {
					i = (i + n) % len(sessions) // each is as often the first
					began := time.Now()
					_, err := sessions[i].Append(b.Context(), text)
					took[i] = time.Since(began)
					require.NoError(b, err)
				}
				more[0] = append(more[0], took[0])
				more[1], more[2] = append(more[1], took[1]-took[0]), append(more[2], took[2]-took[0])
			}
			median := make([]float64, 3)
			for i := range more {
				slices.Sort(more[i])
				median[i] = float64(more[i][len(more[i])/2])
			}
			b.ReportMetric(median[0]/1e3, "bare-µs")
			b.ReportMetric(100*median[1]/median[0], "slower-%")
			b.ReportMetric(100*median[2]/median[0], "spans-slower-%")
		})
	}
}
