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

// NewServer starts a server. Like [httptest.NewServer] it panics if there is no
// port to listen on. The caller closes it.
func NewServer(m *Model) *Server {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := httptest.NewUnstartedServer(m)
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	return &Server{s, cancel}
}

// Close ends every connection, stalled ones too, and returns when nothing of
// the server runs any more, except a [Rule], Pace or Observe that does not
// return: it waits for those. Closing again does nothing.
func (s *Server) Close() {
	s.cancel(errClosed)
	s.CloseClientConnections()
	s.Server.Close()
}
