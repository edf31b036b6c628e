package uistream_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
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
			k := newTesterOf(t, scripted, &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
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
