package serve_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/zyhive/convlog"
)

// channelLogs lets administrators read the logs in the folder of a store.
func channelLogs(logs *convlog.Log) func(context.Context, serve.ChannelQuery) (any, error) {
	return func(ctx context.Context, q serve.ChannelQuery) (any, error) {
		if q.Chat == "" {
			return logs.Channels(ctx, q.Agent, q.Type)
		}
		page := []convlog.Found{}
		for found, err := range logs.Entries(ctx, convlog.Channel{Agent: q.Agent, Type: q.Type, Chat: q.Chat}, convlog.Query{Sender: q.Sender, Text: q.Text, Before: q.Before}) {
			if err != nil || len(page) == q.Limit {
				return page, err
			}
			page = append(page, found)
		}
		return page, nil
	}
}

// A server with the page, below a prefix. ChannelLogs is channelLogs(logs) where logs
// are kept; without it the page shows sessions alone.
func Example_page() {
	sv, err := serve.New(session.OpenDriver(memdriver.New(nil), nil), &serve.Options{
		Surfaces: []serve.Surface{serve.Page()},
		Auth:     serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}, "key of root": {Admin: true}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ts := httptest.NewServer(http.StripPrefix("/talks", sv))
	defer ts.Close()
	resp, err := http.Get(ts.URL + "/talks/page") //nolint:noctx // an example
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, strings.Contains(string(page), "<title>Convolog</title>"))
	// Output: 200 OK true
}
