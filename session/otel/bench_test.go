package otel_test

import (
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

// BenchmarkAppend appends 1 KiB by turns to a store with a Recorder and to one without. It
// reports the median of each, and by how much the Recorder slows an append.
func BenchmarkAppend(b *testing.B) {
	for name, policy := range map[string]session.SyncPolicy{"sync": session.SyncAlways, "nosync": session.SyncNever} {
		b.Run("1KiB/"+name, func(b *testing.B) {
			tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
			mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
			r, err := otel.New(tp, mp, nil)
			require.NoError(b, err)
			defer func() { require.NoError(b, tp.Shutdown(b.Context())) }()
			var sessions [2]*session.Session
			for i, opts := range []*session.Options{{Sync: policy}, {Sync: policy, Observe: r.Observe}} {
				store, err := session.Open(b.TempDir(), opts)
				require.NoError(b, err)
				defer func() { require.NoError(b, store.Close()) }()
				sessions[i], err = store.Create(b.Context(), session.Key{}, nil)
				require.NoError(b, err)
			}
			text := transcript.UserText(strings.Repeat("x", 1<<10))
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				for i := range 2 {
					i = (i + n) % 2 // both are as often the first
					began := time.Now()
					_, err := sessions[i].Append(b.Context(), text)
					took[i] = append(took[i], time.Since(began))
					require.NoError(b, err)
				}
			}
			var median [2]float64
			for i := range took {
				slices.Sort(took[i])
				median[i] = float64(took[i][len(took[i])/2])
			}
			b.ReportMetric(median[0]/1e3, "bare-µs")
			b.ReportMetric(median[1]/1e3, "observed-µs")
			b.ReportMetric(100*(median[1]/median[0]-1), "slower-%")
		})
	}
}
