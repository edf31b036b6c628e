package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// reconnect is the pause before a broken stream is opened again.
const reconnect = time.Second

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
				more, failed := readEvents(resp.Body, func(data []byte) bool {
					e, err := transcript.ParseEntry(data)
					after = e.ID
					return yield(e, err) && err == nil
				})
				_ = resp.Body.Close() // only read
				if failed != nil {
					failed.base = r.base
					more = more && yield(transcript.Entry{}, failed) && false
				}
				if !more {
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

// readEvents calls take with the data of each event until take returns false or the stream
// ends. more is false if take returned false. failed is the problem of a last event that
// reports a failure.
func readEvents(stream io.Reader, take func(data []byte) bool) (more bool, failed *problem) {
	lines := bufio.NewReader(stream)
	var name, data []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return true, nil
		}
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && string(name) == "end":
			failed = &problem{}
			_ = json.Unmarshal(data, &failed.Problem) // a failure without details is still a failure
			return true, failed
		case len(line) == 0 && len(data) > 0 && !take(data):
			return false, nil
		case len(line) == 0:
			name, data = nil, nil
		case string(field) == "event":
			name = bytes.Clone(value)
		case string(field) == "data":
			data = append(data, value...)
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
