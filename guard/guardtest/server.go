package guardtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Server serves a Model on a port of the loopback interface. It is safe for
// several goroutines.
type Server struct {
	URL   string // of its root: http://127.0.0.1:port
	Model *Model

	http      *http.Server
	transport *http.Transport
	cancel    context.CancelCauseFunc // ends the contexts of requests
	serving   sync.WaitGroup          // the accepting goroutine and the connections
}

// NewServer starts a server. Like [net/http/httptest.NewServer] it panics if
// there is no port to listen on. The caller closes it.
func NewServer(m *Model) *Server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		if l, err = net.Listen("tcp6", "[::1]:0"); err != nil {
			panic(fmt.Sprintf("guardtest: no port to listen on: %v", err))
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Server{
		URL:       "http://" + l.Addr().String(),
		Model:     m,
		transport: &http.Transport{},
		cancel:    cancel,
	}
	s.http = &http.Server{
		Handler:     m,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState:   s.track,
	}
	s.serving.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			cancel(err)
		}
	})
	return s
}

// track counts the connections. Each has one goroutine, which calls the Model.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.serving.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.serving.Done()
	default:
	}
}

// Client returns a client for the server. Its connections end with the server.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.transport} }

// Close ends every connection, stalled ones too, and returns when nothing of
// the server runs any more, except a [Rule], Pace or Observe that does not
// return: it waits for those. Closing again does nothing.
func (s *Server) Close() {
	s.cancel(errClosed)
	_ = s.http.Close() // the listener is ours and was open
	s.transport.CloseIdleConnections()
	s.serving.Wait()
}
