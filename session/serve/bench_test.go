package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// BenchmarkAppend measures an append over HTTP, in turns with an empty handler and an
// append through Go, which it is compared with: x-baseline.
func BenchmarkAppend(b *testing.B) {
	for name, sync := range map[string]session.SyncPolicy{"never": session.SyncNever, "always": session.SyncAlways} {
		b.Run("sync="+name, func(b *testing.B) {
			store, err := session.Open(b.TempDir(), &session.Options{Sync: sync})
			require.NoError(b, err)
			defer store.Close()
			sv, err := serve.New(store, &serve.Options{Open: true, Logger: quiet})
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
			var served, base []float64
			var here *session.Session
			for n := 0; b.Loop(); n++ {
				if n%50 == 0 { // sessions of usual length, one to append to either way
					_, err := store.Create(b.Context(), session.Key{Agent: "main", Channel: "x", Peer: fmt.Sprint(n)}, &session.CreateOptions{ID: fmt.Sprint("s", n)})
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
			}
			b.ReportMetric(median(served)/median(base), "x-baseline")
			b.ReportMetric(median(served), "ns-p50")
			b.ReportMetric(median(base), "ns-baseline")
			b.ReportMetric(0, "ns/op") // of both sides together: says nothing
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkFollowers measures an entry that a thousand clients follow: CPU time for
// each follower and entry, and memory for each follower, those of the clients here
// included.
func BenchmarkFollowers(b *testing.B) {
	const followers = 1000
	ts, store, sv := served(b, nil)
	s := talk(b, store, "one")
	head, err := s.Head(b.Context())
	require.NoError(b, err)
	before := heap()
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(b.Context())
	var got atomic.Int64
	var reading sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: followers, ReadBufferSize: 512, WriteBufferSize: 512}}
	for range followers {
		req, err := http.NewRequestWithContext(ctx, "GET", ts.URL+"/v1/store/sessions/main/one/follow?after="+head, nil)
		require.NoError(b, err)
		resp, err := client.Do(req)
		require.NoError(b, err)
		reading.Go(func() {
			defer resp.Body.Close()
			buffer := make([]byte, 2048)
			for {
				n, err := resp.Body.Read(buffer)
				got.Add(int64(bytes.Count(buffer[:n], []byte("\nevent: entry\n"))))
				if err != nil {
					return
				}
			}
		})
	}
	kept := float64(heap()-before) / followers
	goroutines = runtime.NumGoroutine() - goroutines
	begin, n := cpu(), int64(0)
	for b.Loop() {
		_, err := s.Append(b.Context(), transcript.UserText("a text of some words"))
		require.NoError(b, err)
		n++
		for got.Load() < n*followers {
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.ReportMetric(float64(cpu()-begin)/float64(n*followers), "cpu-ns/follower")
	b.ReportMetric(kept, "B/follower")
	b.ReportMetric(float64(goroutines)/followers, "goroutines/follower")
	cancel()
	reading.Wait()
	client.CloseIdleConnections()
	_ = sv
}

// heap is what is in use, stacks included.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// cpu is the time that this process has used.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
