package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// reconnect is the pause before a broken stream is opened again.
const reconnect = time.Second

var errEnough = errors.New("the caller needs no more events")

// follow reconnects if the stream breaks, and continues after the last entry.
func (r *remote) follow(ctx context.Context, ref session.Ref, after string) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for connected := false; ; connected = true {
			resp, err := r.open(ctx, http.MethodGet, at(ref, "/follow?")+url.Values{"after": {after}}.Encode(), body{})
			if _, refused := errors.AsType[*problem](err); err != nil && (!connected || refused) {
				yield(transcript.Entry{}, err)
				return
			}
			if err == nil {
				err = wire.ReadSSE(resp.Body, func(data []byte) error {
					e, err := transcript.ParseEntry(data)
					if failed := (&problem{base: r.base}); err != nil && json.Unmarshal(data, &failed.Problem) == nil && failed.Code != "" {
						err = failed
					}
					after = e.ID
					if !yield(e, err) || err != nil {
						return errEnough
					}
					return nil
				})
				_ = resp.Body.Close() // only read
				if errors.Is(err, errEnough) {
					return
				}
			}
			select {
			case <-ctx.Done():
				yield(transcript.Entry{}, ctx.Err())
				return
			case <-time.After(reconnect):
			}
		}
	}
}

func (r *remote) Search(ctx context.Context, q search.Query) iter.Seq2[search.Hit, error] {
	return r.hits(ctx, "/search", q)
}

func (r *remote) searchIn(ctx context.Context, ref session.Ref, q search.Query) iter.Seq2[search.Hit, error] {
	return r.hits(ctx, at(ref, "/search"), q)
}

func (r *remote) hits(ctx context.Context, path string, q search.Query) iter.Seq2[search.Hit, error] {
	return func(yield func(search.Hit, error) bool) {
		data, err := json.Marshal(q)
		if err != nil {
			yield(search.Hit{}, err)
			return
		}
		resp, err := r.open(ctx, http.MethodPost, path, body{media: "application/json", data: data})
		if err != nil {
			yield(search.Hit{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }() // only read
		for lines := json.NewDecoder(resp.Body); ; {
			var hit search.Hit
			err := lines.Decode(&hit)
			if errors.Is(err, io.EOF) || !yield(hit, err) || err != nil {
				return
			}
		}
	}
}
