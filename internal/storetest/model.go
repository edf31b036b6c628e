package storetest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// AgentSystem is a system prompt.
const AgentSystem = "You are an agent."

// A Client sends requests to a model of package guardtest.
type Client struct{ Model *guardtest.Model }

// Complete implements guard.Client.
func (c Client) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	if req.Model == "" {
		req.Model = "m"
	}
	_, answer, err := Ask(ctx, c.Model, anthropic.Format{}, "http://model.invalid/v1/messages", req)
	return answer, err
}

// A Format renders requests of one API and parses its responses.
type Format interface {
	// Request renders the body of a request.
	Request(req transcript.Request) (body []byte, report rebuild.Report, err error)
	// Response parses the body of a response.
	Response(body []byte) (*transcript.Response, error)
}

// Ask sends a request to a model, and returns its body and the response.
func Ask(ctx context.Context, model http.RoundTripper, format Format, url string, req transcript.Request) (body []byte, answer *transcript.Response, err error) {
	body, _, err = format.Request(req)
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := model.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = cmp.Or(err, resp.Body.Close()); err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, wire.NewAPIError(resp.StatusCode, text)
	}
	answer, err = format.Response(text)
	return body, answer, err
}

// CheckAccepted asserts that the model refused no request as invalid.
func CheckAccepted(t testing.TB, m *guardtest.Model) {
	t.Helper()
	for _, r := range m.Invalid() {
		t.Fatalf("request %d was refused: %s\n%.2000s", r.N, r.Refused, r.Body)
	}
	if n := m.Stats().Invalid; n > 0 {
		t.Fatalf("%d requests were refused", n)
	}
}
