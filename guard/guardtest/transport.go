package guardtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// RoundTrip implements [net/http.RoundTripper] without a network: it serves a
// request to any host. Streaming works; each event waits until the one before
// it was read. The body of the response must be read to its end or closed, or
// the context of the request cancelled, else a goroutine stays behind.
func (m *Model) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, pw: pw, begun: make(chan struct{})}
	go func() {
		defer cancel()
		// Reads and writes end with the context, as on a connection.
		stop := context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) })
		err := serve(m, w, in)
		if err != nil && r.Context().Err() != nil {
			err = r.Context().Err()
		}
		stop()
		_ = in.Body.Close()
		w.end(err)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		select {
		case <-w.begun: // the answer came first
		default:
			_ = pr.Close()
			return nil, ctx.Err()
		}
	}
	if w.broken != nil {
		return nil, w.broken
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode: w.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        w.sent,
		ContentLength: -1,
		Body:          &pipeBody{pr, cancel},
		Request:       r,
	}, nil
}

// serve calls the handler and returns an error if it breaks the connection.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = io.ErrUnexpectedEOF
		default:
			panic(v)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// pipeBody is the body of a response. Closing it tells the handler that the
// client went away.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *pipeBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// A pipeWriter is the [net/http.ResponseWriter] of a handler whose client reads
// from a pipe.
type pipeWriter struct {
	header http.Header
	pw     *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when the fields below are known
	status int
	sent   http.Header
	broken error // before the answer began
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pw.Write(p)
}

// Flush implements [net/http.Flusher].
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// end ends the body, with an error if the connection was broken.
func (w *pipeWriter) end(err error) {
	if err == nil {
		w.WriteHeader(http.StatusOK)
	}
	w.once.Do(func() {
		w.broken = err
		close(w.begun)
	})
	w.pw.CloseWithError(err)
}
