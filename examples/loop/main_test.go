package main

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
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// strict asks a model that refuses the same as a provider.
type strict struct {
	service *guardtest.Model
	bodies  []string
}

func (m *strict) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	req.Model = "m"
	body, _, err := anthropic.Format{}.Request(req)
	if err != nil {
		return nil, err
	}
	m.bodies = append(m.bodies, string(body))
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://offline.invalid/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("anthropic-version", "2023-06-01")
	resp, err := m.service.RoundTrip(post)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, wire.NewAPIError(resp.StatusCode, answer)
	}
	return anthropic.Format{}.Response(answer)
}

// talk runs the program on lines of input and returns its output and the
// model's last request.
func talk(t *testing.T, dir string, service *guardtest.Model, lines ...string) (printed, sent string) {
	t.Helper()
	m := &strict{service: service}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), dir, m, strings.NewReader(strings.Join(lines, "\n")), &out))
	if s := service.Stats(); s.Invalid > 0 {
		t.Fatalf("%d requests were refused: %s", s.Invalid, service.Invalid()[0].Refused)
	}
	return out.String(), m.bodies[len(m.bodies)-1]
}

// One run and two runs over the same input show the model the same messages.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	service := func() *guardtest.Model {
		return &guardtest.Model{Answer: guardtest.When(guardtest.UserHas("file"),
			guardtest.When(guardtest.AfterTools, guardtest.Always(guardtest.Say("I see.")),
				guardtest.Always(guardtest.Call(transcript.ToolCallBlock{ID: "a", Name: "read", Input: []byte("{}")}))), nil)}
	}
	printed, once := talk(t, dir+"/one", service(), "hello", "look at the file", "thanks")
	require.Equal(t, "Restored: 0 previous turns\nhello\n\nthere is no tool read\nthanks\n", printed)
	talk(t, dir+"/two", service(), "hello", "look at the file")
	printed, twice := talk(t, dir+"/two", service(), "thanks")
	require.Equal(t, "Restored: 2 previous turns\nthanks\n", printed)
	require.Equal(t, twice, once)
}

// In a smaller window than the program expects, it still continues.
func TestSmallWindow(t *testing.T) {
	long := strings.Repeat("many words of a user. ", 300)
	_, sent := talk(t, t.TempDir(), &guardtest.Model{Window: 8000, ReserveOutput: true},
		long, long, long, long, long, long, long, "and now?")
	require.Contains(t, sent, "[Previous conversation summary]")
}

// An error ends the program, and the conversation is kept.
func TestError(t *testing.T) {
	dir := t.TempDir()
	m := &strict{service: &guardtest.Model{Answer: guardtest.Always(guardtest.Unauthorized())}}
	err := run(t.Context(), dir, m, strings.NewReader("hello"), io.Discard)
	if e, ok := errors.AsType[*wire.APIError](err); !ok || e.Status != http.StatusUnauthorized {
		t.Errorf("the error is %v", err)
	}
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Equal(t, "hello", p.User)
	require.NoError(t, store.Close())
}

// client is a model of one function.
type client func() (*transcript.Response, error)

func (c client) Complete(context.Context, transcript.Request) (*transcript.Response, error) {
	return c()
}

// If the model fails during an answer, the received part is kept and printed.
func TestPartialAnswer(t *testing.T) {
	dir := t.TempDir()
	lost := errors.New("connection lost")
	var out bytes.Buffer
	err := run(t.Context(), dir, client(func() (*transcript.Response, error) {
		return &transcript.Response{StopReason: transcript.StopAborted, Message: transcript.AssistantText("Half of")}, lost
	}), strings.NewReader("hello"), &out)
	require.ErrorIs(t, err, lost)
	require.Contains(t, out.String(), "Half of\n")
	_, sent := talk(t, dir, &guardtest.Model{}, "and now?")
	require.Contains(t, sent, "Half of")
}

// A model that never stops calling tools is stopped.
func TestRounds(t *testing.T) {
	asked := 0
	require.NoError(t, run(t.Context(), t.TempDir(), client(func() (*transcript.Response, error) {
		asked++
		return &transcript.Response{StopReason: transcript.StopToolUse, Message: transcript.Message{
			Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "a", Name: "read", Input: []byte("{}")}},
		}}, nil
	}), strings.NewReader("hello"), io.Discard))
	require.Equal(t, maxRounds, asked)
}
