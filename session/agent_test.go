package session_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// client asks a model of package guardtest.
type client struct{ model *guardtest.Model }

// Complete implements guard.Client.
func (c client) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
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
	resp, err := c.model.RoundTrip(r)
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

// agent is the loop around a model.
type agent struct {
	g    *guard.Guard
	c    client
	tool func(call transcript.ToolCallBlock) string // nil: "ok"
}

// turn runs one turn: it appends the text, unless it is empty, and goes on
// until the model calls no more tools.
func (a agent) turn(ctx context.Context, s *session.Session, text string) error {
	if text != "" {
		if _, err := s.Append(ctx, transcript.UserText(text)); err != nil {
			return err
		}
	}
	for {
		resp, err := guard.Do(ctx, a.g, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
			return a.c.Complete(ctx, c.Request)
		})
		if err != nil {
			return err
		}
		if _, err := s.Append(ctx, resp); err != nil {
			return err
		}
		calls := resp.Message.ToolCalls()
		if len(calls) == 0 {
			return nil
		}
		errs := make([]error, len(calls))
		var wg sync.WaitGroup
		for i, call := range calls {
			wg.Go(func() {
				out := "ok"
				if a.tool != nil {
					out = a.tool(call)
				}
				_, errs[i] = s.Append(ctx, transcript.ToolResult(call.ID, out))
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
}

// checkAccepted asserts that the model has refused nothing as invalid.
func checkAccepted(t testing.TB, m *guardtest.Model) {
	t.Helper()
	for _, r := range m.Invalid() {
		t.Fatalf("request %d was refused: %s\n%.2000s", r.N, r.Refused, r.Body)
	}
	if n := m.Stats().Invalid; n > 0 {
		t.Fatalf("%d requests were refused", n)
	}
}

// checkRestart asserts that another process would send the same.
func checkRestart(t testing.TB, dir string, opts *session.Options, want string) {
	t.Helper()
	o := *opts
	o.ReadOnly = true
	st := open(t, dir, &o)
	defer closed(t, st)
	s, err := st.Lookup(t.Context(), cli)
	require.NoError(t, err)
	require.Equal(t, want, request(t, s))
}

func lines(n int) string {
	var sb bytes.Buffer
	for i := range n {
		fmt.Fprintf(&sb, "line %d of a text that goes on\n", i)
	}
	return sb.String()
}
