package serve_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// BenchmarkAppend measures an append over HTTP, in turns with an empty handler and an
// append through Go, which it is compared with: x-baseline. A request has the ID of a
// session and not a handle of it; x-baseline-with-get includes the Store.Get. The session
// has the owner that the surface gives to new sessions.
func BenchmarkAppend(b *testing.B) {
	for name, sync := range map[string]session.SyncPolicy{"never": session.SyncNever, "always": session.SyncAlways} {
		b.Run("sync="+name, func(b *testing.B) {
			store, err := session.Open(b.TempDir(), &session.Options{Sync: sync})
			require.NoError(b, err)
			defer store.Close()
			sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Logger: quiet})
			require.NoError(b, err)
			ts := httptest.NewServer(sv)
			defer ts.Close()
			empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
			}))
			defer empty.Close()
			body := []byte(`{"role":"user","content":"` + strings.Repeat("a text of some words ", 10) + `"}`)
			post := func(url string) {
				resp, err := http.Post(url, "application/json", bytes.NewReader(body)) //nolint:noctx // a measurement
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(err, resp)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			var served, base, get []float64
			var here *session.Session
			for n := 0; b.Loop(); n++ {
				if n%50 == 0 { // sessions of usual length, one to append to either way
					_, err := store.Create(b.Context(), session.Key{Agent: "main", Channel: "x", Peer: fmt.Sprint(n)}, &session.CreateOptions{ID: fmt.Sprint("s", n), Owner: "default"})
					require.NoError(b, err)
					here, err = store.Create(b.Context(), session.Key{Agent: "main", Channel: "y", Peer: fmt.Sprint(n)}, nil)
					require.NoError(b, err)
				}
				begin := time.Now()
				post(fmt.Sprintf("%s/api/v1/sessions/s%d/messages", ts.URL, n/50*50))
				middle := time.Now()
				post(empty.URL)
				if _, err := here.Append(b.Context(), transcript.UserText(string(body[26:len(body)-2]))); err != nil {
					b.Fatal(err)
				}
				served = append(served, float64(middle.Sub(begin)))
				base = append(base, float64(time.Since(middle)))
				middle = time.Now()
				if _, err := store.Get(b.Context(), here.Ref()); err != nil {
					b.Fatal(err)
				}
				get = append(get, float64(time.Since(middle)))
			}
			b.ReportMetric(median(served)/median(base), "x-baseline")
			b.ReportMetric(median(served)/(median(base)+median(get)), "x-baseline-with-get")
			b.ReportMetric(median(get), "ns-get")
			b.ReportMetric(median(served), "ns-p50")
			b.ReportMetric(median(base), "ns-baseline")
			b.ReportMetric(0, "ns/op") // of both sides together: meaningless
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
