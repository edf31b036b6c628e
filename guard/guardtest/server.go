package guardtest

import (
	"context"
	"net"
	"net/http/httptest"
)

// Server serves a Model on a port of the loopback interface. It is safe for
// several goroutines.
type Server struct {
	*httptest.Server
	cancel context.CancelCauseFunc // ends the contexts of requests
}

// NewServer starts a server, which the caller closes. Like [httptest.NewServer] it
// panics if no port is free.
func NewServer(m *Model) *Server {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := httptest.NewUnstartedServer(m)
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	return &Server{s, cancel}
}

// Close ends every connection, including stalled ones, and waits until the server no
// longer runs. So it also waits for a [Rule], Pace or Observe that does not return. A
// second Close does nothing.
func (s *Server) Close() {
	s.cancel(errClosed)
	s.CloseClientConnections()
	s.Server.Close()
}
