package httpclient_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/transcript"
)

const (
	chatYes   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`
	chatPiece = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}` + "\n\n"
	chatEnd   = "data: [DONE]\n\n"

	messagesPiece = `data: {"type":"message_start","message":{"role":"assistant","model":"m","usage":{"input_tokens":1}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"yes"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}` + "\n\n"
	messagesEnd = `data: {"type":"message_stop"}` + "\n\n"
)

// An openBody is an answer of a server that keeps the connection open.
type openBody struct {
	io.Reader
	closed chan struct{}
}

func (b *openBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	<-b.closed
	return 0, errors.New("read of a closed body")
}

func (b *openBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

// An answer is complete with its last event, if the server keeps the connection open or
// breaks it.
func TestLastEvent(t *testing.T) {
	for name, text := range map[string]string{"chat": chatPiece + chatEnd, "messages": messagesPiece + messagesEnd} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := &openBody{strings.NewReader(text), make(chan struct{})}
				broken := io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF))
				for _, body := range []io.Reader{open, broken} {
					rt := &transport{}
					rt.answers = append(rt.answers, func(r *http.Request) (*http.Response, error) {
						resp, err := answer(200, body, "Content-Type", "text/event-stream")(r)
						if body == open {
							resp.Body = open
						}
						return resp, err
					})
					began := time.Now()
					resp, err := clients[name](rt).Complete(t.Context(), request("hi"))
					require.NoError(t, err)
					require.Equal(t, "yes", resp.Message.Text())
					require.Equal(t, transcript.StopEndTurn, resp.StopReason)
					require.Less(t, time.Since(began), time.Second)
				}
				<-open.closed
			})
		})
	}
}

// A body that the server keeps open delays no JSON value. The client returns any other
// error after a bounded wait, with the received part.
func TestOpenBody(t *testing.T) {
	const refusal = `{"error":{"message":"prompt is too long"}}`
	for name, tt := range map[string]struct {
		status int
		body   string
		err    string
		wait   time.Duration
	}{
		"answer":       {200, chatYes, "", time.Second},
		"spaced":       {200, "\n" + chatYes + "\n", "", time.Second},
		"other JSON":   {200, `{"x":1}`, `"{\"x\":1}"`, time.Second},
		"page":         {200, "<html>down", "<html>down", 6 * time.Second},
		"refusal":      {400, refusal, "400: prompt is too long", time.Second},
		"cut refusal":  {400, refusal[:30], "prompt", 6 * time.Second},
		"refused page": {400, "<html>down", "400: <html>down", 6 * time.Second},
		"number":       {404, "404 page not found", "404: 404 page not found", 6 * time.Second},
		"no answer":    {200, "500 down", `"500 down"`, 6 * time.Second},
		"empty":        {400, "", "400", 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := &openBody{iotest.OneByteReader(strings.NewReader(tt.body)), make(chan struct{})}
				rt := &transport{}
				rt.answers = append(rt.answers, func(r *http.Request) (*http.Response, error) {
					resp, err := answer(tt.status, nil)(r)
					resp.Body = open
					return resp, err
				})
				began := time.Now()
				resp, err := clients["chat, whole"](rt).Complete(t.Context(), request("hi"))
				require.Less(t, time.Since(began), tt.wait)
				require.Equal(t, 1, rt.sent)
				<-open.closed
				if tt.err != "" {
					require.ErrorContains(t, err, tt.err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "yes", resp.Message.Text())
			})
		})
	}
}

// A connection that breaks after the stop reason leaves the answer complete, and one that
// breaks before it does not.
func TestBrokenEnd(t *testing.T) {
	for name, tt := range map[string]struct{ client, text string }{
		"chat":     {"chat", chatPiece},
		"messages": {"messages", messagesPiece},
	} {
		rt := &transport{}
		rt.answers = append(rt.answers, answer(200, io.MultiReader(strings.NewReader(tt.text), iotest.ErrReader(io.ErrUnexpectedEOF))))
		resp, err := clients[tt.client](rt).Complete(t.Context(), request("hi"))
		require.Equal(t, "yes", resp.Message.Text(), name)
		if name == "chat" {
			require.NoError(t, err)
			require.Equal(t, transcript.StopEndTurn, resp.StopReason)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, transcript.StopAborted, resp.StopReason)
		}
	}
}

// The client reads a body to its end, so that the transport can use the connection again.
func TestDrained(t *testing.T) {
	body := iotest.OneByteReader(strings.NewReader(chatPiece + chatEnd + ": bye\n"))
	rt := &transport{}
	rt.answers = append(rt.answers, answer(200, body))
	_, err := clients["chat"](rt).Complete(t.Context(), request("hi"))
	require.NoError(t, err)
	n, err := body.Read(make([]byte, 1))
	require.Zero(t, n)
	require.ErrorIs(t, err, io.EOF)
}

// The content decides whether an answer is a stream, whatever its media type. An answer
// that is not one is not repeated.
func TestMedia(t *testing.T) {
	for _, media := range []string{"", "text/plain; charset=utf-8", "application/json", "application/octet-stream", "text/event-stream"} {
		for _, body := range []string{chatYes, " \r\n\t" + chatYes, chatPiece + chatEnd, ": ping\n\n" + chatPiece, "\n\n" + chatPiece + chatEnd, "\uFEFFid: 1\n" + chatPiece} {
			rt := &transport{}
			rt.answers = append(rt.answers, answer(200, strings.NewReader(body), "Content-Type", media))
			resp, err := clients["chat"](rt).Complete(t.Context(), request("hi"))
			require.NoError(t, err, "%s: %.20q", media, body)
			require.Equal(t, "yes", resp.Message.Text())
			require.Equal(t, 1, rt.sent)
		}
		for _, body := range []string{"<html>down", "[1]", `{"x":1}`, "internal error", "no"} {
			if media == "text/event-stream" && !strings.ContainsAny(body[:1], "{[<") {
				continue // a stream without events, which the server ended
			}
			rt := &transport{}
			rt.answers = append(rt.answers, answer(200, strings.NewReader(body), "Content-Type", media))
			_, err := clients["chat"](rt).Complete(t.Context(), request("hi"))
			require.ErrorContains(t, err, fmt.Sprintf("%q", body), media)
			require.Equal(t, 1, rt.sent)
		}
	}
}

// A failure of the connection is repeated, and a permanent one is not.
func TestFailedRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		sent int
	}{
		"dial":      {&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, 4},
		"reset":     {&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}, 4},
		"ended":     {io.EOF, 4},
		"cut":       {fmt.Errorf("transport connection broken: %w", io.ErrUnexpectedEOF), 4},
		"timeout":   {&net.DNSError{Err: "slow", IsTimeout: true}, 4},
		"idle":      {errors.New("http: server closed idle connection"), 4},
		"HTTP/2":    {errors.New("http2: server sent GOAWAY and closed the connection"), 4},
		"authority": {&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, 1},
		"proxy":     {&net.OpError{Op: "proxyconnect", Err: &tls.CertificateVerificationError{Err: errors.New("unknown")}}, 1},
		"alert":     {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, 1},
		"no TLS":    {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, 1},
		"transport": {errors.New("cannot sign the request"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &transport{}
				rt.answers = append(rt.answers, func(*http.Request) (*http.Response, error) { return nil, tt.err })
				_, err := clients["chat"](rt).Complete(t.Context(), request("hi"))
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.sent, rt.sent)
			})
		})
	}
}

// A client that cannot work fails at once.
func TestUnusable(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	header := httpclient.Chat("http://127.0.0.1:1/v1", key+"\n")
	for name, tt := range map[string]struct {
		client *httpclient.Client
		want   string
	}{
		"empty":     {&httpclient.Client{}, "httpclient: Client.Format is nil"},
		"scheme":    {httpclient.Chat("api.example.invalid/v1", key), "unsupported protocol scheme"},
		"host":      {httpclient.Chat("http:///v1", key), "no Host in request URL"},
		"header":    {header, `invalid header field value for "Authorization"`},
		"authority": {httpclient.Chat(server.URL, key), "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			rt := &transport{}
			rt.answers = append(rt.answers, http.DefaultTransport.RoundTrip)
			tt.client.HTTP, tt.client.MaxWait = &http.Client{Transport: rt}, time.Millisecond
			resp, err := tt.client.Complete(t.Context(), request("hi"))
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, resp)
			require.LessOrEqual(t, rt.sent, 1)
		})
	}
}
