package serve_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

// The allocations of an append over HTTP, with about 30 of the test. The Get of the
// session and the append are half of the others.
func TestAppendAllocs(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	store := storetest.Open(t, t.TempDir(), storetest.Unsynced)
	defer storetest.Close(t, store)
	sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Logger: quiet})
	require.NoError(t, err)
	for owner, most := range map[string]float64{ // with a margin: a collection empties the pools
		"default": 100, // 88
		"":        180, // 162: the administrator's owner is tried first
	} {
		s, err := store.Create(t.Context(), session.Key{Agent: "main", Peer: "of " + owner}, &session.CreateOptions{Owner: owner})
		require.NoError(t, err)
		got := testing.AllocsPerRun(1000, func() {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/sessions/"+s.Ref().ID+"/messages", bytes.NewReader([]byte(`{"role":"user","content":"hello"}`)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			sv.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatal(w)
			}
		})
		if t.Logf("owner %q: %v", owner, got); got > most {
			t.Errorf("owner %q: %v allocations, want %v at most", owner, got, most)
		}
	}
}
