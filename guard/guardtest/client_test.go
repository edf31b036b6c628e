package guardtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// A client talks to a model.
type client struct {
	http *http.Client
	url  string
}

// overBoth runs a test over TCP and in process.
func overBoth(t *testing.T, f func(t *testing.T, start func(*guardtest.Model) client)) {
	t.Run("tcp", func(t *testing.T) {
		f(t, func(m *guardtest.Model) client {
			s := guardtest.NewServer(m)
			t.Cleanup(s.Close)
			return client{s.Client(), s.URL}
		})
	})
	t.Run("in process", func(t *testing.T) { f(t, inProcess) })
}

func inProcess(m *guardtest.Model) client {
	return client{&http.Client{Transport: m}, "http://model.test"}
}

// send posts a body and returns the response, whose body is open.
func (c client) send(ctx context.Context, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	return c.http.Do(r)
}

// post posts a body and reads the whole answer.
func (c client) post(t *testing.T, body string) (status int, answer []byte, err error) {
	t.Helper()
	resp, err := c.send(t.Context(), "/v1/messages", []byte(body))
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// refuse posts a body that is to be refused.
func (c client) refuse(t *testing.T, body string) {
	t.Helper()
	_ = c.refused(t, body) // it fails the test itself
}

// refused posts a body and returns how it was refused.
func (c client) refused(t *testing.T, body string) *wire.APIError {
	t.Helper()
	status, answer, err := c.post(t, body)
	require.NoError(t, err)
	if status == http.StatusOK {
		t.Fatalf("accepted, answered %s", answer)
	}
	return wire.NewAPIError(status, answer)
}

// ask sends a request and returns the received part of the answer.
func (c client) ask(ctx context.Context, stream bool, req transcript.Request) (*transcript.Response, error) {
	format := anthropic.Format{Stream: stream}
	body, _, err := format.Request(req)
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, "/v1/messages", body, stream, format.NewStream(), format.Response)
}

// answer posts a body and returns the received part of the answer.
func (c client) answer(ctx context.Context, path string, body []byte, stream bool, in wire.Stream, whole func([]byte) (*transcript.Response, error)) (*transcript.Response, error) {
	resp, err := c.send(ctx, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if stream && resp.StatusCode == http.StatusOK {
		err = wire.ReadSSE(resp.Body, func(event []byte) error {
			_, err := in.Add(event)
			return err
		})
		return in.Response(), err
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, wire.NewAPIError(resp.StatusCode, data)
	}
	return whole(data)
}

// hello is a small request.
func hello() transcript.Request {
	return transcript.Request{
		Model: "model-1", MaxOutput: 1000,
		Messages: []transcript.Message{transcript.UserText("Hello, model.")},
	}
}

// counter counts the bytes of texts and inputs and nothing else.
type counter struct{}

func (counter) Count(system string, _ []transcript.Tool, messages []transcript.Message) int {
	n := len(system)
	for _, m := range messages {
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				n += len(b.Text)
			case transcript.ToolCallBlock:
				n += len(b.Input)
			case transcript.ThinkingBlock:
				n += len(b.Thinking)
			}
		}
	}
	return n
}

func words(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }

// apiError returns the refusal that err is.
func apiError(t *testing.T, err error) *wire.APIError {
	t.Helper()
	e, ok := errors.AsType[*wire.APIError](err)
	if !ok {
		t.Fatalf("got error %v, want a refusal", err)
	}
	return e
}
