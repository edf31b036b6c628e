package serve_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

// Give each owner a quota: by the index, of sessions and of their bytes.
func ExampleOptions_admit() {
	store, done := open()
	defer done()
	const sessions, bytes = 2, 10 << 20
	server, err := serve.New(store, &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}}),
		Admit: func(ctx context.Context, who serve.Principal, d serve.Demand) error {
			if who.Admin || d.Route.Method == http.MethodGet && !d.Creates {
				return nil
			}
			infos, err := store.List(ctx, &session.ListOptions{Owner: who.Owner, State: session.AnyState})
			size := d.Body
			for _, info := range infos {
				size += info.Size
			}
			if err == nil && (size > bytes || d.Creates && len(infos) >= sessions) {
				err = &serve.Problem{Status: http.StatusTooManyRequests, Code: "QUOTA", Title: "delete a session first"}
			}
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	ts := httptest.NewServer(server)
	defer ts.Close()
	for range 3 {
		req, _ := http.NewRequest(http.MethodPost, ts.URL+"/v1/store/sessions", http.NoBody) //nolint:noctx // an example
		req.Header.Set("X-API-Key", "key of anna")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}
