package session_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// agent is the loop around a model.
type agent struct {
	g    *guard.Guard
	c    storetest.Client
	tool func(call transcript.ToolCallBlock) string // nil: "ok"
}

// turn runs one turn: it appends the text, unless it is empty, and continues
// until the model calls no tool.
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

// checkRestart asserts that another process would send the same.
func checkRestart(t testing.TB, dir string, opts *session.Options, want string) {
	t.Helper()
	o := *opts
	o.ReadOnly = true
	st := storetest.Open(t, dir, &o)
	defer storetest.Close(t, st)
	s, err := storetest.Current(t.Context(), st, storetest.CLI)
	require.NoError(t, err)
	require.Equal(t, want, storetest.Request(t, s))
}

func lines(n int) string {
	var sb bytes.Buffer
	for i := range n {
		fmt.Fprintf(&sb, "line %d of a text that goes on\n", i)
	}
	return sb.String()
}
