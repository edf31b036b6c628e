package uistream_test

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// Another request changes the chat just before an answer is asked for anew. Its change
// stands: the slower request is refused, or gets the answer that the same request began.
func TestAgainRace(t *testing.T) {
	t.Parallel()
	anew := object{"id": "c", "trigger": "regenerate-message", "messages": []object{says("m", "picture")}}
	for _, tt := range []struct {
		name   string
		other  object
		status int
	}{
		{"regenerate", anew, http.StatusOK},
		{"edit", object{"id": "c", "messageId": "m", "messages": []object{says("m", "void")}}, http.StatusConflict},
		{"new", object{"id": "c", "messages": []object{says("n", "void")}}, http.StatusConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var first atomic.Pointer[func()]
			k := newTesterOf(t, scripted, memdriver.New(nil), &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
				if e.Kind == session.EventAppendStart && ctx.Value(http.ServerContextKey) != nil { // of a request
					if f := first.Swap(nil); f != nil {
						(*f)()
					}
				}
				return ctx
			}})
			k.post(object{"id": "c", "messages": []object{says("m", "picture")}})
			var want []object
			f := func() {
				k.post(tt.other)
				want = k.messages()
			}
			first.Store(&f)
			resp := k.request("ann", "POST", "", anew)
			require.Equal(t, tt.status, resp.StatusCode)
			chunks(t, resp)
			require.NotEmpty(t, want)
			require.Equal(t, want, k.messages())
		})
	}
}

// A hooked driver calls f after a number of reads.
type hooked struct {
	driver.Driver
	reads atomic.Int64 // until f
	f     func()
}

func (h *hooked) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		h.Driver.Scan(ctx, ref, from, dir, keep)(yield)
		if h.reads.Add(-1) == 0 {
			h.f()
		}
	}
}

func (h *hooked) Close() error { return nil } // the other server closes the driver

// While a client reads a chat, a queued message is answered, and another client sends one.
// The list has each message at most once, under the client's ID, and omits none.
func TestReadRace(t *testing.T) {
	t.Parallel()
	for read, more := int64(1), true; more; read++ {
		d := memdriver.New(nil)
		k, h := newTesterOf(t, scripted, d, nil), &hooked{Driver: d}
		reader := newTesterOf(t, scripted, h, nil) // another server of the store
		readUntil(t, k.request("ann", "POST", "", object{"id": "c", "messages": []object{says("m1", "waits")}}), "so far")
		second := k.request("ann", "POST", "", object{"id": "c", "messages": []object{says("m2", "picture")}})
		more = false
		h.f = func() {
			more = true
			require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
			chunks(t, second)
			k.post(object{"id": "c", "messages": []object{says("m3", "picture")}})
		}
		h.reads.Store(read)
		var ids []any
		for _, m := range reader.messages() {
			if m["role"] == "user" {
				ids = append(ids, m["id"])
			}
		}
		require.Subset(t, []any{"m1", "m2", "m3"}, ids, read)
		require.Equal(t, []any{"m1", "m2", "m3"}[:max(2, len(ids))], ids, read)
	}
}
