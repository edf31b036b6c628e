package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

const soon = time.Minute // far longer than anything takes

// raw sends text and returns the answer until the server hangs up.
func raw(t *testing.T, addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	go func() { _, _ = io.WriteString(conn, text) }() // the server may answer before it is all sent
	answer, err := io.ReadAll(conn)
	if err != nil {
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the server waits")
		require.NotContains(t, err.Error(), "timeout", "the server waits")
	}
	return string(answer)
}

// refused checks an answer that the client may be too late to read.
func refused(t *testing.T, answer, status, what string) {
	t.Helper()
	if answer != "" {
		require.True(t, strings.HasPrefix(answer, "HTTP/1.1 "+status), "%s: %s", what, answer)
	}
}

// Clients that send a request slowly, or never, or too much of it, are cut by every
// route, before they are known too.
func TestSlowAndLargeRequests(t *testing.T) {
	t.Parallel()
	ts, store, sv := served(t, &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{"k": {Admin: true}}), Patience: 20 * time.Millisecond, MaxBody: 1 << 20,
		Respond: echo,
	})
	talk(t, store, "one")
	addr := strings.TrimPrefix(ts.URL, "http://")
	paths := map[string]string{"/none": "POST", "/api/sessions": "PUT"}
	for _, r := range sv.Routes() {
		req := target{"main", "one", "e"}.fill(t, "", r)
		if req.Method != "GET" {
			paths[req.URL.RequestURI()] = req.Method
		}
	}
	for path, method := range paths {
		for _, key := range []string{"k", "wrong"} {
			head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\n", method, path, addr, key)
			answer := raw(t, addr, head+"Content-Length: 100\r\n\r\n{")
			refused(t, answer, "4", method+" "+path+" with "+key)
			answer = raw(t, addr, head+"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
			refused(t, answer, "4", method+" "+path+" with "+key)
		}
	}
}

// A body of a gigabyte is refused before it is read, whether its length is said or not.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, &serve.Options{Auth: serve.Keys(map[string]serve.Principal{"k": {Admin: true}}), MaxBody: 1 << 20})
	for _, length := range []int64{1 << 30, -1} {
		body := &zeros{left: 1 << 30}
		req, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL+"/v1/store/import", body)
		require.NoError(t, err)
		req.ContentLength = length
		req.Header.Set("X-Api-Key", "k")
		req.Header.Set("Content-Type", "application/jsonl")
		resp, err := http.DefaultClient.Do(req)
		if err == nil { // else the server had hung up before the client continued
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		}
		require.Less(t, body.read.Load(), int64(64<<20))
	}
}

type zeros struct {
	left int64
	read atomic.Int64
}

func (z *zeros) Read(p []byte) (int, error) {
	n := int(min(z.left, int64(len(p))))
	z.left -= int64(n)
	z.read.Add(int64(n))
	clear(p[:n])
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Headers that are too large, too many or too slow are refused.
func TestHeaders(t *testing.T) {
	t.Parallel()
	_, _, sv := served(t, nil)
	start := func(server *http.Server) (addr string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		return l.Addr().String()
	}
	addr, hasty := start(sv.HTTPServer("")), sv.HTTPServer("")
	require.Positive(t, hasty.ReadHeaderTimeout)
	require.Positive(t, hasty.IdleTimeout)
	head := "GET /v1/store/sessions HTTP/1.1\r\nHost: " + addr + "\r\n"
	require.Contains(t, raw(t, addr, head+"Connection: close\r\n\r\n"), "HTTP/1.1 200")
	refused(t, raw(t, addr, head+"X: "+strings.Repeat("x", 1<<20)+"\r\n\r\n"), "431", "headers")
	refused(t, raw(t, addr, head+strings.Repeat("X-A: b\r\n", 1<<17)+"\r\n"), "431", "headers")
	refused(t, raw(t, addr, "GET /"+strings.Repeat("x", 1<<20)+" HTTP/1.1\r\n\r\n"), "431", "headers")

	// Only requests that never end go to the server that waits for 50 ms.
	hasty.ReadHeaderTimeout = 50 * time.Millisecond
	addr = start(hasty)
	require.NotContains(t, raw(t, addr, head+"X: "), "HTTP/1.1 2")
	require.NotContains(t, raw(t, addr, ""), "HTTP/1.1 2")
}

// A stream lasts longer than a client may take to send its request.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	patience := 300 * time.Millisecond
	ts, _, _ := served(t, &serve.Options{Auth: anyone, Patience: patience, Respond: serve.Responder(
		func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
			select {
			case <-time.After(3 * patience):
			case <-ctx.Done():
			}
			return echo(ctx, s, tn)
		})})
	all := chat(t, ts.URL, map[string]any{"message": "after a while"})
	require.Equal(t, "after a while", text(all))
}

// Clients that do not read delay no others, and are cut.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer store.Close()
	sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Patience: 300 * time.Millisecond, Logger: quiet})
	require.NoError(t, err)
	var working atomic.Int64
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		working.Add(1)
		defer working.Add(-1)
		sv.ServeHTTP(w, r)
	}))
	defer ts.Close()
	s := talk(t, store, "one")
	addr := strings.TrimPrefix(ts.URL, "http://")
	for _, path := range []string{
		"/v1/store/sessions/main/one/follow", "/v1/store/sessions/main/one/export", "/v1/store/sessions/main/one/entries", "/api/sessions/main/one", "/api/sessions/main/one?raw=1",
	} {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		if strings.HasSuffix(path, "follow") {
			_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return working.Load() > 0 }, soon, time.Millisecond)
			for range 12 {
				_, err := s.Append(t.Context(), transcript.UserText(strings.Repeat("a large text ", 50_000)))
				require.NoError(t, err)
			}
		} else {
			_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n")
			require.NoError(t, err)
			_, err = bufio.NewReaderSize(conn, 16).ReadByte()
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return working.Load() == 0 }, soon, time.Millisecond, path)
	}
	require.NoError(t, sv.Close(t.Context()))
}

// After Close nothing of the server runs, and every stream has ended. It is not
// parallel to other tests, which have goroutines of their own.
func TestCloseLeavesNothing(t *testing.T) { //nolint:paralleltest // see above
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Respond: echo, Logger: quiet})
	require.NoError(t, err)
	ts := httptest.NewServer(sv)
	talk(t, store, "one")
	ended := make(chan error)
	streams := 0
	stream := func(resp *http.Response) {
		require.Equal(t, http.StatusOK, resp.StatusCode)
		streams++
		go func() { ended <- frames(resp.Body, func(frame) bool { return true }) }()
	}
	for range 5 {
		stream(call(t, "GET", ts.URL+"/v1/store/sessions/main/one/follow", nil))
		stream(call(t, "GET", ts.URL+"/v1/store/changes", nil))
		stream(call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]string{"message": "some words wait"}))
		stream(call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]string{"message": "queued wait", "sessionId": "one"}))
	}
	require.Contains(t, stacks(), "session/serve.(*Server)")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, sv.Close(ctx), context.Canceled)
	for range streams {
		require.NoError(t, <-ended)
	}
	resp := call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]string{"message": "late"})
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	ts.Close()
	require.NoError(t, store.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Eventually(t, func() bool {
		return !strings.Contains(stacks(), "session/serve.(*Server)") && !strings.Contains(stacks(), "convolog/session.(*")
	}, soon, 5*time.Millisecond, stacks())
}

func stacks() string {
	buffer := make([]byte, 16<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}
