package guardtest

import (
	"cmp"
	"context"
	"net"
	"net/http"
)

// RoundTrip implements [net/http.RoundTripper] without a network: it serves a request
// to any host over a connection in memory. Streaming works. Goroutines leak unless the
// response body is read to its end or closed, or the context of the request is
// cancelled.
func (m *Model) RoundTrip(r *http.Request) (*http.Response, error) {
	client, server := net.Pipe()
	s := &http.Server{Handler: m}
	_ = s.Serve(&listener{server}) // it returns after accepting the only connection, which it serves
	t := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return client, nil },
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
	in := r.Clone(r.Context())
	in.URL.Scheme, in.URL.Host = "http", cmp.Or(r.URL.Host, "model")
	resp, err := t.RoundTrip(in)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	resp.Request = r
	return resp, nil
}

// A listener accepts one connection.
type listener struct{ conn net.Conn } // nil once it is accepted

func (l *listener) Accept() (conn net.Conn, err error) {
	if conn, l.conn = l.conn, nil; conn == nil {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{} }

func (l *listener) Close() error { return nil }
