package storetest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
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
	body, _, err := anthropic.Format{}.Request(req)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.invalid/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("anthropic-version", "2023-06-01")
	resp, err := c.Model.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, wire.NewAPIError(resp.StatusCode, text)
	}
	return anthropic.Format{}.Response(text)
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
