package guardtest_test

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

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

func TestErrors(t *testing.T) {
	tests := []struct {
		name   string
		answer guardtest.Answer
		want   wire.APIError
		retry  string
	}{
		{"overloaded", guardtest.Overloaded(), wire.APIError{Status: 529, Type: "overloaded_error", Message: "Overloaded"}, ""},
		{"rate", guardtest.RateLimited(1500 * time.Millisecond), wire.APIError{Status: 429, Type: "rate_limit_error", Message: "This request would exceed your account's rate limit. Please try again later."}, "2"},
		{"rate without a time", guardtest.RateLimited(0), wire.APIError{Status: 429, Type: "rate_limit_error", Message: "This request would exceed your account's rate limit. Please try again later."}, ""},
		{"broken", guardtest.Broken(), wire.APIError{Status: 500, Type: "api_error", Message: "Internal server error"}, ""},
		{"key", guardtest.Unauthorized(), wire.APIError{Status: 401, Type: "authentication_error", Message: "invalid x-api-key"}, ""},
		{"bytes", guardtest.TooLarge(), wire.APIError{Status: 413, Type: "request_too_large", Message: "Request exceeds the maximum size"}, ""},
		{"page", guardtest.Page(413, "<h1>413</h1>"), wire.APIError{Status: 413, Message: "<h1>413</h1>"}, ""},
		{"own", guardtest.Fail(403, "permission_error", "No."), wire.APIError{Status: 403, Type: "permission_error", Message: "No."}, ""},
	}
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				for _, stream := range []bool{false, true} {
					m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
					req, _, err := anthropic.Format{Stream: stream}.Request(hello())
					require.NoError(t, err)
					resp, err := start(m).send(t.Context(), "/v1/messages", req)
					require.NoError(t, err)
					got, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					e := wire.NewAPIError(resp.StatusCode, got)
					e.RequestID = ""
					require.Equal(t, tt.want, *e)
					require.Equal(t, tt.retry, resp.Header.Get("Retry-After"))
					require.Equal(t, guardtest.Stats{Requests: 1, Failed: 1}, m.Stats())
					require.Equal(t, tt.want.Status, m.Requests()[0].Status)
					require.Equal(t, 0, len(m.Invalid())+m.Stats().Overflows)
				}
			})
		}
	})
}

// No page is read as an answer.
func TestPage(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		for _, text := range []string{"", "<html>", `{"content":`, `{"type":"message","content":"?"}`} {
			m := &guardtest.Model{Answer: guardtest.Always(guardtest.Page(200, text))}
			c := start(m)
			status, got, err := c.post(t, body(""))
			require.NoError(t, err)
			require.Equal(t, 200, status)
			require.Equal(t, text, string(got))
			if _, err := c.ask(t.Context(), false, hello()); err == nil {
				t.Errorf("%q was read as an answer", text)
			}
		}
	})
}

// A fault ends an answer; the test compares the part that a client received.
func TestBrokenStreams(t *testing.T) {
	answer := guardtest.Answer{
		Text:  "Let me read all of these files.",
		Calls: []transcript.ToolCallBlock{guardtest.Tool("read", `{"paths": ["a/long/path/to/a", "a/long/path/to/b", "a/long/path/to/c"]}`)},
	}
	tests := []struct {
		name   string
		answer guardtest.Answer
		text   string // of the received part of the answer
		input  string
		err    string // "" for none, "cut", or the message of an error event
		plain  string // the same when it is not streamed
	}{
		{"cut at once", guardtest.CutAfter(0, answer), "", "", "cut", "cut"},
		{"cut after the start", guardtest.CutAfter(1, answer), "", "", "cut", "cut"},
		{"cut in a text", guardtest.CutAfter(4, answer), "Let me read all ", "", "cut", "cut"},
		{"cut in an input", guardtest.CutInput(answer), "Let me read all of these files.", `"{\"paths\": [\"a/long/path/to/a\","`, "cut", "cut"},
		{"cut in no input", guardtest.CutInput(guardtest.Say("Let me read all of these files.")), "Let me read all ", "", "cut", "cut"},
		{"cut after the end", guardtest.CutAfter(99, answer), "Let me read all of these files.", `{"paths": ["a/long/path/to/a", "a/long/path/to/b", "a/long/path/to/c"]}`, "", "cut"},
		{"end", guardtest.EndAfter(4, answer), "Let me read all ", "", "", "no JSON"},
		{"error event", guardtest.FailAfter(4, "overloaded_error", "Overloaded", answer), "Let me read all ", "", "Overloaded", "Overloaded"},
		{"error event at once", guardtest.FailAfter(0, "odd_error", "Odd", answer), "", "", "Odd", "Odd"},
	}
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
				c := start(m)
				resp, err := c.ask(t.Context(), true, hello())
				checkBroken(t, tt.err, err)
				if resp != nil {
					require.Equal(t, tt.text, resp.Message.Text())
					var input []byte
					for _, call := range resp.Message.ToolCalls() {
						input = append(input, call.Input...)
					}
					require.Equal(t, tt.input, string(input))
				}
				_, err = c.ask(t.Context(), false, hello())
				checkBroken(t, tt.plain, err)
				require.Equal(t, guardtest.Stats{Requests: 2, Failed: 2}, m.Stats())
			})
		}
	})
}

func checkBroken(t *testing.T, want string, err error) {
	t.Helper()
	switch want {
	case "":
		require.NoError(t, err)
	case "cut":
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Errorf("got error %v, want a broken connection", err)
		}
	case "no JSON":
		if err == nil {
			t.Error("half an answer was read")
		}
	default:
		require.Equal(t, want, apiError(t, err).Message)
	}
}

func TestStall(t *testing.T) {
	answer := guardtest.Say(words(30))
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		for _, stream := range []bool{false, true} {
			for _, a := range []guardtest.Answer{guardtest.StallAfter(0, guardtest.Answer{}), guardtest.StallAfter(5, answer)} {
				asked := make(chan struct{}, 1)
				ended := make(chan guardtest.Recorded, 1)
				m := &guardtest.Model{
					Answer:  func(guardtest.Request) guardtest.Answer { asked <- struct{}{}; return a },
					Observe: func(r guardtest.Recorded) { ended <- r },
				}
				c := start(m)
				ctx, cancel := context.WithCancel(t.Context())
				failed := make(chan error, 1)
				go func() {
					_, err := c.ask(ctx, stream, hello())
					failed <- err
				}()
				<-asked
				cancel()
				if err := <-failed; !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want that of the context", err)
				}
				got := <-ended
				require.Equal(t, true, got.Done)
				require.Equal(t, guardtest.Failed, got.Outcome)
			}
		}
	})
}

// Closing a server ends what stalls, and leaves nothing running.
func TestClose(t *testing.T) {
	asked := make(chan struct{})
	m := &guardtest.Model{Answer: func(guardtest.Request) guardtest.Answer {
		asked <- struct{}{}
		return guardtest.StallAfter(0, guardtest.Answer{})
	}}
	s := guardtest.NewServer(m)
	failed := make(chan error)
	const clients = 5
	for range clients {
		go func() {
			_, err := client{s.Client(), s.URL}.ask(context.Background(), true, hello())
			failed <- err
		}()
		<-asked
	}
	s.Close()
	for range clients {
		if err := <-failed; err == nil {
			t.Error("a stalled request was answered")
		}
	}
	for _, r := range m.Requests() {
		require.Equal(t, true, r.Done)
	}
	require.Equal(t, clients, len(m.Requests()))
	s.Close()
	_, err := http.Get(s.URL)
	require.Equal(t, true, err != nil)
}

// A stalled call waits for the clock of a test bubble; the bubble ends only
// when all goroutines have.
func TestTimeoutInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &guardtest.Model{
			Answer: guardtest.Start(nil, guardtest.StallAfter(0, guardtest.Answer{}), guardtest.StallAfter(3, guardtest.Say("Hi"))),
			Pace: func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Second):
					return nil
				}
			},
		}
		c := inProcess(m)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			begun := time.Now()
			_, err := c.ask(ctx, true, hello())
			require.Equal(t, true, errors.Is(err, context.DeadlineExceeded), err)
			require.Equal(t, time.Minute, time.Since(begun))
			cancel()
		}
		begun := time.Now()
		_, err := c.ask(t.Context(), true, hello())
		require.NoError(t, err)
		require.Equal(t, 7*time.Second, time.Since(begun))

		c.http.Timeout = 3500 * time.Millisecond // in the fourth event
		_, err = c.ask(t.Context(), true, hello())
		require.Equal(t, true, err != nil)
		synctest.Wait()
		last := m.Requests()[3]
		require.Equal(t, guardtest.Answered, last.Outcome)
	})
}

// An error of Pace breaks the connection.
func TestPaceFails(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		n := 0
		m := &guardtest.Model{Pace: func(context.Context) error {
			if n++; n > 4 {
				return errors.New("enough")
			}
			return nil
		}}
		resp, err := start(m).ask(t.Context(), true, hello())
		checkBroken(t, "cut", err)
		require.Equal(t, "Hello, model.", resp.Message.Text())
	})
}

// A client that reads one event and leaves ends the answer.
func TestClientLeaves(t *testing.T) {
	ended := make(chan guardtest.Recorded, 1)
	m := &guardtest.Model{
		Answer:  guardtest.Always(guardtest.Say(strings.Repeat("word ", 1000))),
		Observe: func(r guardtest.Recorded) { ended <- r },
	}
	resp, err := inProcess(m).send(t.Context(), "/v1/messages", []byte(body(`"stream":true`)))
	require.NoError(t, err)
	_, err = io.ReadFull(resp.Body, make([]byte, 20))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	got := <-ended
	require.Equal(t, 200, got.Status)
}
