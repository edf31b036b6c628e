package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// parrot repeats what was said, word by word. If that is "drop", it calls a tool that
// a person must allow.
func parrot(ctx context.Context, s *session.Session, tn *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	last := h.Messages[len(h.Messages)-1]
	if last.Text() == "drop" {
		call := transcript.ToolCallBlock{ID: "c1", Name: "drop", Input: json.RawMessage(`{"table":"t"}`)}
		ids, err := s.Append(ctx, &transcript.Response{
			Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{call}}, StopReason: transcript.StopToolUse,
		})
		if err != nil {
			return err
		}
		return turn.Decide(ctx, s, ids[len(ids)-1], transcript.Hold, "policy", "")
	}
	if err := turn.RunTools(ctx, s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, "dropped"), nil
	}); err != nil {
		return err
	}
	said := last.Text()
	if said == "" {
		said = "the table is gone"
	}
	d := tn.Draft("test", "parrot", transcript.Made{})
	for _, word := range strings.SplitAfter(said, " ") {
		if err := d.Write(ctx, word); err != nil {
			return err
		}
		if err := d.Flush(ctx); err != nil {
			return err
		}
	}
	_, err = d.Finish(ctx, &transcript.Response{
		Message: transcript.AssistantText(said), API: "test", Model: "parrot", StopReason: transcript.StopEndTurn,
		Usage: transcript.Usage{Input: 10, Output: 3},
	})
	return err
}

// agentsClient is the official client of a server with a key per owner.
func agentsClient(t *testing.T) (client *anthropic.Client, ts *httptest.Server) {
	t.Helper()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	check(t, err)
	sv, err := serve.New(store, &serve.Options{
		Auth:    serve.Keys(map[string]serve.Principal{"anna": {Owner: "anna"}, "ben": {Owner: "ben"}}),
		Respond: parrot, Logger: slog.New(slog.DiscardHandler), Surfaces: serve.Agents,
	})
	check(t, err)
	ts = httptest.NewServer(http.StripPrefix("/below", sv))
	t.Cleanup(func() {
		check(t, sv.Close(context.Background()))
		ts.Close()
		check(t, store.Close())
	})
	c := anthropic.NewClient(option.WithAPIKey("anna"), option.WithBaseURL(ts.URL+"/below/"), option.WithMaxRetries(0))
	return &c, ts
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T any](t *testing.T, want, got T) {
	t.Helper()
	w, _ := json.Marshal(want)
	g, _ := json.Marshal(got)
	if string(w) != string(g) {
		t.Fatalf("got  %s\nwant %s", g, w)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func toSend(text string) anthropic.BetaSessionEventSendParams {
	return anthropic.BetaSessionEventSendParams{Events: []anthropic.BetaManagedAgentsEventParamsUnion{{
		OfUserMessage: &anthropic.BetaManagedAgentsUserMessageEventParams{
			Type: anthropic.BetaManagedAgentsUserMessageEventParamsTypeUserMessage,
			Content: []anthropic.BetaManagedAgentsUserMessageEventParamsContentUnion{{
				OfText: &anthropic.BetaManagedAgentsTextBlockParam{Type: anthropic.BetaManagedAgentsTextBlockTypeText, Text: text},
			}},
		},
	}}}
}

func newSession(ctx context.Context, t *testing.T, c *anthropic.Client, title string) *anthropic.BetaManagedAgentsSession {
	t.Helper()
	s, err := c.Beta.Sessions.New(ctx, anthropic.BetaSessionNewParams{
		Agent: anthropic.BetaSessionNewParamsAgentUnion{OfString: anthropic.String("main")}, EnvironmentID: "env",
		Title: anthropic.String(title), Metadata: map[string]string{"team": "a"},
	})
	check(t, err)
	return s
}

type streamed = anthropic.BetaManagedAgentsStreamSessionEventsUnion

// eventsOf sends something once the stream is there, and returns the events up to the
// first one that ends it.
func eventsOf(ctx context.Context, t *testing.T, c *anthropic.Client, id string, send func(), ends func(streamed) bool, opts ...option.RequestOption) (all []streamed) {
	t.Helper()
	st := c.Beta.Sessions.Events.StreamEvents(ctx, id, anthropic.BetaSessionEventStreamParams{
		EventDeltas: []anthropic.BetaManagedAgentsDeltaType{anthropic.BetaManagedAgentsDeltaTypeAgentMessage},
	}, opts...)
	defer func() { _ = st.Close() }()
	check(t, st.Err())
	send()
	for st.Next() {
		all = append(all, st.Current())
		if ends(st.Current()) {
			return all
		}
	}
	check(t, st.Err())
	return all
}

func isIdle(e streamed) bool { return e.Type == "session.status_idle" }

// The official SDK manages sessions.
func TestServeSessions(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c, _ := agentsClient(t)
	var want []string
	for _, title := range []string{"one", "two", "three", "four", "five"} {
		want = append(want, newSession(ctx, t, c, title).ID)
	}
	s, err := c.Beta.Sessions.Update(ctx, want[0], anthropic.BetaSessionUpdateParams{
		Title: anthropic.String("first"), Metadata: map[string]string{"color": "red"},
	})
	check(t, err)
	same(t, "first", s.Title)
	same(t, map[string]string{"team": "a", "color": "red"}, s.Metadata)
	s, err = c.Beta.Sessions.Get(ctx, want[0], anthropic.BetaSessionGetParams{})
	check(t, err)
	same(t, "first", s.Title)
	same(t, "main", s.Agent.ID)
	same(t, "idle", string(s.Status))
	for _, f := range []interface{ Valid() bool }{
		s.JSON.ID, s.JSON.Agent, s.JSON.CreatedAt, s.JSON.EnvironmentID, s.JSON.Metadata, s.JSON.OutcomeEvaluations, s.JSON.Resources,
		s.JSON.Stats, s.JSON.Status, s.JSON.Title, s.JSON.Type, s.JSON.UpdatedAt, s.JSON.Usage, s.JSON.VaultIDs,
		s.Agent.JSON.ID, s.Agent.JSON.Description, s.Agent.JSON.ExecutionIdentity, s.Agent.JSON.MCPServers, s.Agent.JSON.Model,
		s.Agent.JSON.Name, s.Agent.JSON.Skills, s.Agent.JSON.System, s.Agent.JSON.Tools, s.Agent.JSON.Type, s.Agent.JSON.Version,
	} {
		if !f.Valid() {
			t.Errorf("a required member is missing: %s", s.RawJSON())
		}
	}

	ids := func(order anthropic.BetaSessionListParamsOrder, archived bool) (ids []string) {
		pages := c.Beta.Sessions.ListAutoPaging(ctx, anthropic.BetaSessionListParams{
			Limit: anthropic.Int(2), Order: order, IncludeArchived: anthropic.Bool(archived), Statuses: []string{"idle", "terminated"},
		})
		for pages.Next() {
			ids = append(ids, pages.Current().ID)
		}
		check(t, pages.Err())
		return ids
	}
	same(t, want, ids("asc", false))
	down := slices.Clone(want)
	slices.Reverse(down)
	same(t, down, ids("", false))

	s, err = c.Beta.Sessions.Archive(ctx, want[4], anthropic.BetaSessionArchiveParams{})
	check(t, err)
	if s.ArchivedAt.IsZero() {
		t.Error("no time of archiving")
	}
	same(t, down[1:], ids("desc", false))
	same(t, down, ids("desc", true))
	gone, err := c.Beta.Sessions.Delete(ctx, want[3], anthropic.BetaSessionDeleteParams{})
	check(t, err)
	same(t, want[3], gone.ID)
	same(t, want[:3], ids("asc", false))

	_, err = c.Beta.Sessions.Get(ctx, want[0], anthropic.BetaSessionGetParams{}, option.WithAPIKey("ben"))
	var apiErr *anthropic.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound {
		t.Fatalf("somebody else's session: %v", err)
	}
	same(t, "not_found_error", string(apiErr.Type()))
}

// The official SDK sends, streams, pages, and goes on after a cut.
func TestServeEvents(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c, ts := agentsClient(t)
	id := newSession(ctx, t, c, "").ID
	send := func(text string) func() {
		return func() {
			sent, err := c.Beta.Sessions.Events.Send(ctx, id, toSend(text))
			check(t, err)
			same(t, "user.message", sent.Data[0].Type)
			same(t, text, sent.Data[0].AsUserMessage().Content[0].Text)
		}
	}
	all := eventsOf(ctx, t, c, id, send("one two three"), isIdle)
	var types []string
	preview := ""
	for _, e := range all {
		types = append(types, e.Type)
		if e.Type == "event_delta" {
			preview += e.AsEventDelta().Delta.Content.Text
		}
	}
	same(t, []string{
		"user.message", "session.status_running", "event_start", "event_delta", "event_delta", "event_delta",
		"agent.message", "session.status_idle",
	}, types)
	same(t, "one two three", preview)
	same(t, preview, all[6].AsAgentMessage().Content[0].Text)
	same(t, all[2].AsEventStart().Event.ID, all[6].ID)
	same(t, "end_turn", all[7].AsSessionStatusIdle().StopReason.Type)

	// A call waits for a person.
	all = eventsOf(ctx, t, c, id, send("drop"), isIdle)
	reason := all[len(all)-1].AsSessionStatusIdle().StopReason.AsRequiresAction()
	call := all[len(all)-2].AsAgentToolUse()
	same(t, []string{call.ID}, reason.EventIDs)
	same(t, map[string]any{"table": "t"}, call.Input)
	all = eventsOf(ctx, t, c, id, func() {
		_, err := c.Beta.Sessions.Events.Send(ctx, id, anthropic.BetaSessionEventSendParams{Events: []anthropic.BetaManagedAgentsEventParamsUnion{{
			OfUserToolConfirmation: &anthropic.BetaManagedAgentsUserToolConfirmationEventParams{
				Type:      anthropic.BetaManagedAgentsUserToolConfirmationEventParamsTypeUserToolConfirmation,
				ToolUseID: call.ID, Result: anthropic.BetaManagedAgentsUserToolConfirmationEventParamsResultAllow,
			},
		}}})
		check(t, err)
	}, isIdle)
	same(t, call.ID, all[2].AsAgentToolResult().ToolUseID)
	same(t, "dropped", all[2].AsAgentToolResult().Content[0].Text)
	same(t, "end_turn", all[len(all)-1].AsSessionStatusIdle().StopReason.Type)

	// Pages.
	var want []string
	pages := c.Beta.Sessions.Events.ListAutoPaging(ctx, id, anthropic.BetaSessionEventListParams{Limit: anthropic.Int(3)})
	for pages.Next() {
		want = append(want, pages.Current().ID+" "+pages.Current().Type)
	}
	check(t, pages.Err())
	page, err := c.Beta.Sessions.Events.List(ctx, id, anthropic.BetaSessionEventListParams{
		Order: anthropic.BetaSessionEventListParamsOrderDesc, Types: []anthropic.BetaManagedAgentsSessionEventType{"agent.message"},
	})
	check(t, err)
	same(t, 2, len(page.Data))
	same(t, "the table is gone", page.Data[0].AsAgentMessage().Content[0].Text)

	// A client that has listed some streams the others, and is cut after each event.
	seen := want[:2]
	for len(seen) < len(want) {
		last, _, _ := strings.Cut(seen[len(seen)-1], " ")
		all := eventsOf(ctx, t, c, id, func() {}, func(e streamed) bool { return !strings.HasPrefix(e.Type, "event_") }, option.WithHeader("Last-Event-ID", last))
		e := all[len(all)-1]
		seen = append(seen, e.ID+" "+e.Type)
		ts.CloseClientConnections()
	}
	same(t, want, seen)

	// A session that is deleted ends its streams.
	all = eventsOf(ctx, t, c, id, func() {
		_, err := c.Beta.Sessions.Delete(ctx, id, anthropic.BetaSessionDeleteParams{})
		check(t, err)
	}, func(streamed) bool { return false })
	same(t, "session.deleted", all[len(all)-1].Type)
}
