package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

const key = "sk-0123456789abcdef"

var _ guard.Client = (*httpclient.Client)(nil)

// clients are a client of each API for a transport.
var clients = map[string]func(http.RoundTripper) *httpclient.Client{
	"messages": func(rt http.RoundTripper) *httpclient.Client {
		return via(rt, httpclient.Messages("http://model.invalid/", key))
	},
	"chat": func(rt http.RoundTripper) *httpclient.Client {
		return via(rt, httpclient.Chat("http://model.invalid/v1", key))
	},
	"messages, whole": func(rt http.RoundTripper) *httpclient.Client {
		c := via(rt, httpclient.Messages("http://model.invalid", key))
		c.Format = anthropic.Format{}
		return c
	},
	"chat, whole": func(rt http.RoundTripper) *httpclient.Client {
		c := via(rt, httpclient.Chat("http://model.invalid/v1", key))
		c.Format = openaichat.Format{}
		return c
	},
}

func via(rt http.RoundTripper, c *httpclient.Client) *httpclient.Client {
	c.HTTP, c.Model, c.MaxOutput = &http.Client{Transport: rt}, "m", 500
	return c
}

// each runs a test with a client of each API and a fake clock.
func each(t *testing.T, f func(t *testing.T, c *httpclient.Client, m *guardtest.Model)) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &guardtest.Model{}
				f(t, client(m), m)
			})
		})
	}
}

func request(text string) transcript.Request {
	return transcript.Request{Messages: []transcript.Message{transcript.UserText(text)}}
}

// A transport answers each request with the next of its functions, and then with the
// last one.
type transport struct {
	answers []func(*http.Request) (*http.Response, error)
	sent    int
}

func (rt *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	f := rt.answers[min(rt.sent, len(rt.answers)-1)]
	rt.sent++
	return f(r)
}

func answer(status int, body io.Reader, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body), Request: r}, nil
	}
}

func TestAnswer(t *testing.T) {
	each(t, func(t *testing.T, c *httpclient.Client, m *guardtest.Model) {
		m.Answer = guardtest.Always(guardtest.Say("Hello, 世界."))
		var shown strings.Builder
		resp, err := c.Stream(t.Context(), request("hi"), func(d wire.Delta) { shown.WriteString(d.Text) })
		require.NoError(t, err)
		require.Equal(t, "Hello, 世界.", resp.Message.Text())
		require.Equal(t, "Hello, 世界.", shown.String())
		require.Equal(t, transcript.StopEndTurn, resp.StopReason)
		req := m.Requests()[0]
		require.Equal(t, "m", req.Model)
		require.Contains(t, string(req.Body), "500")
		require.Zero(t, m.Stats().Invalid)
	})
}

// A failure that can pass is repeated after the wait that the service asks for.
func TestRetry(t *testing.T) {
	for name, tt := range map[string]struct {
		fail      guardtest.Answer
		low, high time.Duration // of three waits
	}{
		"rate limit":  {guardtest.RateLimited(7 * time.Second), 21 * time.Second, 21 * time.Second},
		"last limit":  {guardtest.RateLimited(time.Minute), 3 * time.Minute, 3 * time.Minute},
		"no limit":    {guardtest.RateLimited(0), 7 * time.Second, 9 * time.Second},
		"overload":    {guardtest.Overloaded(), 7 * time.Second, 9 * time.Second},
		"unavailable": {guardtest.Fail(503, "api_error", "down"), 7 * time.Second, 9 * time.Second},
		"no JSON":     {guardtest.Page(502, "<html>bad gateway"), 7 * time.Second, 9 * time.Second},
		"cut at once": {guardtest.CutAfter(0, guardtest.Say("x")), 7 * time.Second, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, c *httpclient.Client, m *guardtest.Model) {
				m.Answer = guardtest.Script(tt.fail, tt.fail, tt.fail, guardtest.Say("fine"), tt.fail)
				began := time.Now()
				resp, err := c.Complete(t.Context(), request("hi"))
				require.NoError(t, err)
				require.Equal(t, "fine", resp.Message.Text())
				took := time.Since(began)
				require.True(t, took >= tt.low && took <= tt.high, "waited %s", took)

				c.Attempts = 1
				resp, err = c.Complete(t.Context(), request("hi"))
				require.Error(t, err)
				require.Nil(t, resp)
				require.Len(t, m.Requests(), 5)

				// A wait that would outlast the context does not begin.
				c.Attempts = 0
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				began = time.Now()
				_, err = c.Complete(ctx, request("hi"))
				require.Error(t, err)
				require.Zero(t, time.Since(began))
			})
		})
	}
}

// The header Retry-After is a number of seconds or a date. A useless one is ignored, and
// the client does not wait longer than MaxWait.
func TestRetryAfter(t *testing.T) {
	in := func(d time.Duration) func() string {
		return func() string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	}
	is := func(text string) func() string { return func() string { return text } }
	for name, tt := range map[string]struct {
		header    func() string
		low, high time.Duration
		sent      int
	}{
		"seconds":  {is("3"), 3 * time.Second, 3 * time.Second, 2},
		"fraction": {is("0.25"), time.Second / 4, time.Second / 4, 2},
		"longest":  {is("20"), 20 * time.Second, 20 * time.Second, 2},
		"date":     {in(5 * time.Second), 5 * time.Second, 5 * time.Second, 2},
		"past":     {in(-time.Hour), time.Second, 2 * time.Second, 2},
		"zero":     {is("0"), time.Second, 2 * time.Second, 2},
		"negative": {is("-5"), time.Second, 2 * time.Second, 2},
		"NaN":      {is("NaN"), time.Second, 2 * time.Second, 2},
		"words":    {is("soon"), time.Second, 2 * time.Second, 2},
		"too long": {is("21"), 0, 0, 1},
		"huge":     {is("1e300"), 0, 0, 1},
		"far date": {in(time.Hour), 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &transport{}
				rt.answers = append(rt.answers,
					func(r *http.Request) (*http.Response, error) {
						return answer(429, strings.NewReader("{}"), "Retry-After", tt.header())(r)
					},
					answer(401, strings.NewReader("{}")))
				c := clients["chat"](rt)
				c.MaxWait = 20 * time.Second
				began := time.Now()
				_, err := c.Complete(t.Context(), request("hi"))
				refusal, ok := errors.AsType[*wire.APIError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, map[int]int{1: 429, 2: 401}[tt.sent], refusal.Status)
				require.Equal(t, tt.sent, rt.sent)
				took := time.Since(began)
				require.True(t, took >= tt.low && took <= tt.high, "waited %s", took)
			})
		})
	}
}

// A cut stream gives the received part, and is not repeated.
func TestCut(t *testing.T) {
	for _, name := range []string{"messages", "chat"} {
		t.Run(name, func(t *testing.T) {
			for kind, cut := range map[string]func(int, guardtest.Answer) guardtest.Answer{"broken": guardtest.CutAfter, "ended": guardtest.EndAfter} {
				m := &guardtest.Model{Answer: guardtest.Always(cut(4, guardtest.Say(strings.Repeat("many words ", 200))))}
				resp, err := clients[name](m).Complete(t.Context(), request("hi"))
				require.Error(t, err, kind)
				require.True(t, strings.HasPrefix(resp.Message.Text(), "many words"), kind)
				require.Equal(t, transcript.StopAborted, resp.StopReason, kind)
				require.Len(t, m.Requests(), 1, kind)
				require.Equal(t, guard.NotOverflow, guard.Classify(err).Kind)
			}
		})
	}
}

// An error inside a stream is repeated only before a part of the answer was shown.
func TestFailedStream(t *testing.T) {
	for _, name := range []string{"messages", "chat"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				say := guardtest.Say(strings.Repeat("many words ", 200))
				m := &guardtest.Model{Answer: guardtest.Script(
					guardtest.FailAfter(0, "server_error", "try again", say),
					guardtest.FailAfter(5, "server_error", "try again", say),
				)}
				resp, err := clients[name](m).Complete(t.Context(), request("hi"))
				refusal, ok := errors.AsType[*wire.APIError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "try again", refusal.Message)
				require.NotEmpty(t, resp.Message.Text())
				require.Equal(t, transcript.StopError, resp.StopReason)
				require.Len(t, m.Requests(), 2)
			})
		})
	}
}

// A cancelled call ends at once: in a stream with the received part, and in a wait.
func TestCancel(t *testing.T) {
	for _, name := range []string{"messages", "chat"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &guardtest.Model{Answer: guardtest.Script(
					guardtest.StallAfter(6, guardtest.Say(strings.Repeat("many words ", 200))), guardtest.RateLimited(time.Second))}
				c := clients[name](m)
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := c.Stream(ctx, request("hi"), func(d wire.Delta) {
					if d.Text != "" {
						cancel()
					}
				})
				require.ErrorIs(t, err, context.Canceled)
				require.NotEmpty(t, resp.Message.Text())

				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Second/2, cancel)
				resp, err = c.Complete(ctx, request("hi"))
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err, "429")
				require.Nil(t, resp)
				require.Len(t, m.Requests(), 2)
			})
		})
	}
}

// Refusals are not repeated, and package guard recognizes them.
func TestRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		kind   guard.Kind
	}{
		"overflow":       {400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 250000 tokens > 200000 maximum"}}`, guard.Tokens},
		"part":           {400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"}}`, guard.Part},
		"page":           {413, "<html><h1>413 Request Entity Too Large</h1>", guard.Bytes},
		"single request": {429, `{"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}`, guard.RateLimit},
		"quota":          {429, `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":"insufficient_quota"}}`, guard.NotOverflow},
		"key":            {401, `{"error":{"message":"Incorrect API key provided: ` + key + `."}}`, guard.NotOverflow},
		"redirect":       {307, ``, guard.NotOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			for api, client := range clients {
				rt := &transport{}
				rt.answers = append(rt.answers, func(r *http.Request) (*http.Response, error) {
					return answer(tt.status, strings.NewReader(tt.body), "Location", "http://other.invalid/", "X-Request-Id", "req_1")(r)
				})
				resp, err := client(rt).Complete(t.Context(), request("hi"))
				refusal, ok := errors.AsType[*wire.APIError](err)
				require.True(t, ok, "%s: %v", api, err)
				require.Equal(t, tt.status, refusal.Status, api)
				require.Equal(t, "req_1", refusal.RequestID, api)
				require.Equal(t, tt.kind, guard.Classify(err).Kind, "%s: %v", api, err)
				require.Nil(t, resp, api)
				require.Equal(t, 1, rt.sent, api)
				require.NotContains(t, err.Error(), key, api)
			}
		})
	}
}

// An endless supplies bytes and counts them.
type endless struct {
	piece string
	n     int64
}

func (e *endless) Read(p []byte) (n int, _ error) {
	for n < len(p) {
		k := copy(p[n:], e.piece[e.n%int64(len(e.piece)):])
		n, e.n = n+k, e.n+int64(k)
	}
	return n, nil
}

// The client reads a bounded part of an endless answer or refusal.
func TestEndless(t *testing.T) {
	for name, tt := range map[string]struct {
		status       int
		media, piece string
		limit        int64
	}{
		"stream":  {200, "text/event-stream", ": ping\n\n", 2 << 20},
		"whole":   {200, "application/json", " ", 2 << 20},
		"refusal": {500, "text/html", "<p>", 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{piece: tt.piece}
			rt := &transport{}
			rt.answers = append(rt.answers, answer(tt.status, body, "Content-Type", tt.media))
			c := clients["messages"](rt)
			c.Attempts, c.MaxAnswer = 1, 1<<20
			resp, err := c.Complete(t.Context(), request("hi"))
			require.Error(t, err)
			require.Nil(t, resp)
			require.LessOrEqual(t, body.n, tt.limit)
			require.Equal(t, 1, rt.sent)
		})
	}
}

// An answer of exactly the allowed size is complete. A limit below 0 is the default.
func TestMaxAnswer(t *testing.T) {
	const body = `{"choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`
	for size, ok := range map[int64]bool{int64(len(body)): true, int64(len(body)) - 1: false, -5: true} {
		rt := &transport{}
		rt.answers = append(rt.answers, answer(200, strings.NewReader(body)))
		c := clients["chat, whole"](rt)
		c.MaxAnswer = size
		resp, err := c.Complete(t.Context(), request("hi"))
		require.Equal(t, ok, err == nil, "%d bytes: %v", size, err)
		require.Equal(t, ok, resp != nil)
		require.Equal(t, 1, rt.sent)
	}
}
