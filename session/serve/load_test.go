package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// All sessions are listed and searched while answers are being made, in memory that
// does not grow with their number.
func TestLoad(t *testing.T) {
	t.Parallel()
	sessions, generations := 200, 8
	if *faults != "short" {
		sessions, generations = 10_000, 64
	}
	var words atomic.Int64
	enough := make(chan struct{})
	ts, store, _ := served(t, &serve.Options{Auth: anyone, Generations: generations, Respond: serve.Responder(
		func(ctx context.Context, _ *session.Session, tn *turn.Turn) error {
			d := tn.Draft("test", "slow", transcript.Made{})
			text := ""
			for {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-enough:
					_, err := d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText(text), StopReason: transcript.StopEndTurn})
					return err
				case <-time.After(10 * time.Millisecond):
				}
				text += "word "
				words.Add(1)
				if err := d.Write(ctx, "word "); err != nil {
					return err
				}
				if err := d.Flush(ctx); err != nil {
					return err
				}
			}
		})})
	for i := range sessions {
		key := session.Key{Agent: "main", Channel: "test", Peer: fmt.Sprint(i)}
		s, err := store.Create(t.Context(), key, &session.CreateOptions{Owner: fmt.Sprint("owner", i%10)})
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.UserText(fmt.Sprintf("tell me of needle%d and of hay", i%100)))
		require.NoError(t, err)
	}
	var clients sync.WaitGroup
	var answered atomic.Int64
	for i := range generations {
		resp := call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]string{"message": fmt.Sprint("say ", i)})
		clients.Go(func() {
			_ = frames(resp.Body, func(f frame) bool {
				if f.typ() == "done" {
					answered.Add(1)
				}
				return true
			})
		})
	}
	require.Eventually(t, func() bool { return words.Load() > int64(generations) }, soon, time.Millisecond)

	before := words.Load()
	stop := make(chan struct{})
	peak := make(chan uint64)
	go func() { peak <- peakHeap(stop) }()
	listed := map[string]bool{}
	for next := ""; ; {
		var page struct {
			Sessions []session.Info
			Next     string
		}
		require.NoError(t, json.NewDecoder(call(t, "GET", ts.URL+"/v1/store/sessions?limit=500&after="+next, nil).Body).Decode(&page))
		for _, i := range page.Sessions {
			listed[i.ID] = true
		}
		if next = page.Next; next == "" {
			break
		}
	}
	require.GreaterOrEqual(t, len(listed), sessions)
	for _, ranked := range []bool{false, true} {
		resp := call(t, "POST", ts.URL+"/v1/store/search", search.Query{Text: "needle7 hay", Ranked: ranked, Limit: 50})
		require.Equal(t, http.StatusOK, resp.StatusCode)
		hits := 0
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			hits++
		}
		require.Positive(t, hits)
		require.LessOrEqual(t, hits, 50)
	}
	close(stop)
	most := <-peak
	require.Less(t, most, uint64(512<<20))
	require.Greater(t, words.Load(), before, "nothing was answered meanwhile")
	close(enough)
	clients.Wait()
	require.EqualValues(t, generations, answered.Load())
	t.Logf("%d sessions listed and searched during %d answers: at most %d MB in use", len(listed), generations, most>>20)
}

// peakHeap returns the most memory that is in use until it is stopped.
func peakHeap(stop chan struct{}) (most uint64) {
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse+m.StackInuse)
		select {
		case <-stop:
			return most
		case <-time.After(20 * time.Millisecond):
		}
	}
}
