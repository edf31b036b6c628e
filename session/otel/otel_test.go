package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/otel"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

const secret = "xyzzy" // in every text of the conversation

var errModel = errors.New("the model refused " + secret)

// open returns a session with three turns, in a store that compacts after the next.
func (l *lab) open(t testing.TB, summary error) *session.Session {
	now := time.Unix(1_790_000_000, 0)
	store := session.OpenDriver(memdriver.New(nil), &session.Options{
		Observe: l.Observe,
		Now:     func() time.Time { now = now.Add(time.Second); return now },
		Compact: compact.Options{
			Keep: compact.Keep{Turns: 1}, Trigger: compact.Trigger{Threshold: 150}, Timeout: -1,
			Summarizer: compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
				_, span := l.tracer.Start(ctx, "chat summarizer")
				defer span.End()
				return secret, summary
			}),
		},
	})
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s, err := store.Create(context.Background(), session.Key{Agent: "clerk"}, &session.CreateOptions{ID: "s1"})
	require.NoError(t, err)
	for range 3 {
		_, err := s.Append(context.Background(), transcript.UserText(strings.Repeat(secret+" ", 20)), transcript.AssistantText(secret))
		require.NoError(t, err)
	}
	l.spans.Reset()
	return s
}

// answer returns an answer of a model, with its calls.
func answer(text string, calls ...transcript.Block) *transcript.Response {
	return &transcript.Response{
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: append([]transcript.Block{transcript.TextBlock{Text: text}}, calls...)},
		API:     "anthropic", Model: "claude-x", StopReason: transcript.StopEndTurn, Usage: transcript.Usage{Input: 40, Output: 9, CacheRead: 30},
	}
}

// runTurn runs a turn with a call of a tool, a search and a compaction.
func (l *lab) runTurn(ctx context.Context, s *session.Session) (err error) {
	ctx, end := l.Turn(ctx, s)
	defer func() { end(err) }()
	ask := func(answer *transcript.Response) error {
		_, span := l.tracer.Start(ctx, "chat claude-x")
		span.End()
		_, err := s.Append(ctx, answer)
		return err
	}
	if _, err := s.Append(ctx, transcript.UserText(secret)); err != nil {
		return err
	}
	search := func(context.Context) (int, error) { return 2, nil }
	if err := l.Memory(ctx, "search_memory", search); err != nil {
		return err
	}
	calls := []transcript.Block{
		transcript.ToolCallBlock{ID: "c1", Name: "weather", Input: json.RawMessage(`{"city":"` + secret + `"}`)},
		transcript.ToolCallBlock{ID: "c2", Name: "broken", Input: json.RawMessage(`{}`)},
	}
	if err := ask(answer(secret, calls...)); err != nil {
		return err
	}
	tool := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		if c.Call.Name == "broken" {
			return transcript.ToolError(c.Call.ID, secret), nil
		}
		return transcript.ToolResult(c.Call.ID, secret), nil
	}
	if err := turn.RunTools(ctx, s, 1, l.Tool(tool)); err != nil {
		return err
	}
	if err := ask(answer(secret)); err != nil {
		return err
	}
	_, err = s.AfterTurn(ctx)
	return err
}

// The tree of a turn: the call of the summarizer is a part of the compaction.
func TestTurn(t *testing.T) {
	l := newLab(t, &otel.Options{Appends: true})
	require.NoError(t, l.runTurn(t.Context(), l.open(t, nil)))
	l.checkTree(t, "turn.txt")
	require.Equal(t, []string{
		"convolog.append.duration gen_ai.agent.name=clerk: 11",
		"convolog.compact.duration gen_ai.agent.name=clerk: 1",
		"convolog.compact.tokens gen_ai.agent.name=clerk: 1",
		"gen_ai.client.operation.duration gen_ai.agent.name=clerk gen_ai.operation.name=search_memory: 1",
		"gen_ai.execute_tool.duration error.type=tool_error gen_ai.agent.name=clerk gen_ai.operation.name=execute_tool gen_ai.tool.name=broken: 1",
		"gen_ai.execute_tool.duration gen_ai.agent.name=clerk gen_ai.operation.name=execute_tool gen_ai.tool.name=weather: 1",
		"gen_ai.invoke_agent.duration gen_ai.agent.name=clerk gen_ai.operation.name=invoke_agent: 1",
	}, l.metrics(t))
}

// Errors end their spans, and spans do not quote them.
func TestTurnFails(t *testing.T) {
	l := newLab(t, nil)
	s := l.open(t, errModel)
	require.ErrorIs(t, l.runTurn(t.Context(), s), errModel)
	_, err := s.AppendIf(t.Context(), session.Cond{Empty: true}, transcript.UserText(secret))
	require.ErrorIs(t, err, session.ErrConflict)
	l.checkTree(t, "failed.txt")
}

func TestPanics(t *testing.T) {
	l := newLab(t, nil)
	s := l.open(t, nil)
	_, err := s.Append(t.Context(), answer("", transcript.ToolCallBlock{ID: "c1", Name: "weather", Input: json.RawMessage(`{}`)}))
	require.NoError(t, err)
	l.spans.Reset()
	require.NoError(t, turn.RunTools(t.Context(), s, 1, l.Tool(func(context.Context, rebuild.PendingCall) (transcript.Message, error) { panic(secret) })))
	require.Panics(t, func() {
		_ = l.Memory(t.Context(), "update_memory", func(context.Context) (int, error) { panic(secret) })
	})
	later := l.Tool(func(context.Context, rebuild.PendingCall) (transcript.Message, error) {
		return transcript.Message{}, turn.ErrLater
	})
	_, err = later(t.Context(), rebuild.PendingCall{Call: transcript.ToolCallBlock{ID: "c2", Name: "slow"}})
	require.ErrorIs(t, err, turn.ErrLater)
	l.checkTree(t, "panic.txt")
}

// A turn links to the last one of the session, also after a compaction and a restart.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, &otel.Options{Links: true})
	for n := range 3 {
		store, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
		require.NoError(t, err)
		s, err := store.Load(t.Context(), session.Key{Agent: "clerk", Channel: "cli", Peer: "me"})
		require.NoError(t, err)
		ctx, end := l.Turn(t.Context(), s)
		_, err = s.Append(ctx, transcript.UserText(strings.Repeat("question ", 100)), transcript.AssistantText("a"))
		require.NoError(t, err)
		end(nil)
		if n == 1 {
			done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}})
			require.NoError(t, err)
			require.NotEmpty(t, done.Entry)
		}
		require.NoError(t, store.Close())
	}
	spans := l.spans.Ended()
	require.Len(t, spans, 3)
	require.Empty(t, spans[0].Links())
	for i, s := range spans[1:] {
		require.Len(t, s.Links(), 1)
		require.Equal(t, spans[i].SpanContext().SpanID(), s.Links()[0].SpanContext.SpanID())
		require.Equal(t, spans[i].SpanContext().TraceID(), s.Links()[0].SpanContext.TraceID())
		require.Empty(t, s.Events())
	}
}

// If a link cannot be kept, the turn continues, and its span has an event.
func TestLinkFails(t *testing.T) {
	l := newLab(t, &otel.Options{Links: true})
	store := session.OpenDriver(memdriver.New(nil), nil)
	s, err := store.Create(t.Context(), session.Key{}, nil)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	_, end := l.Turn(t.Context(), s)
	end(nil)
	require.Len(t, l.spans.Ended(), 1)
	events := l.spans.Ended()[0].Events()
	require.Len(t, events, 1)
	require.Equal(t, "convolog.link-failed", events[0].Name)
	require.Equal(t, []attribute.KeyValue{attribute.String("error.type", "closed")}, events[0].Attributes)
}

// The span of an append holds the duration of its sync.
func TestSync(t *testing.T) {
	l := newLab(t, &otel.Options{Appends: true})
	store, err := session.Open(t.TempDir(), &session.Options{Observe: l.Observe})
	require.NoError(t, err)
	s, err := store.Load(t.Context(), session.Key{Channel: "cli", Peer: "me"})
	require.NoError(t, err)
	l.spans.Reset()
	_, err = s.Append(t.Context(), transcript.UserText("q"))
	require.NoError(t, err)
	require.NoError(t, store.Close())
	spans := l.spans.Ended()
	require.Len(t, spans, 1)
	i := slices.IndexFunc(spans[0].Attributes(), func(a attribute.KeyValue) bool { return a.Key == "convolog.sync.seconds" })
	require.GreaterOrEqual(t, i, 0)
	require.Positive(t, spans[0].Attributes()[i].Value.AsFloat64())
	require.Contains(t, strings.Join(l.metrics(t), "\n"), "convolog.sync.duration gen_ai.agent.name=main: ")
}

// Appends of several goroutines share syncs, and each is a span of its own.
func TestTogether(t *testing.T) {
	l := newLab(t, &otel.Options{Appends: true})
	store, err := session.Open(t.TempDir(), &session.Options{Observe: l.Observe})
	require.NoError(t, err)
	s, err := store.Load(t.Context(), session.Key{Channel: "cli", Peer: "me"})
	require.NoError(t, err)
	l.spans.Reset()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				if _, err := s.Append(t.Context(), transcript.UserText("q")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, store.Close())
	require.Equal(t, 40, strings.Count(l.tree(t), "convolog.append (internal)"))
}

// A stored session gives the tree of its turns, without words unless content is
// requested. A fork gives its own turns.
func TestReplay(t *testing.T) {
	l := newLab(t, nil)
	s := l.open(t, nil)
	require.NoError(t, l.runTurn(t.Context(), s))
	l.spans.Reset()
	require.NoError(t, l.Replay(t.Context(), s, nil))
	l.checkTree(t, "replay.txt")

	l.spans.Reset()
	require.NoError(t, l.Replay(t.Context(), s, func(e transcript.Entry) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("words", string(e.Line()))}
	}))
	for _, span := range l.spans.Ended() {
		require.Contains(t, list(span.Attributes()), secret, span.Name())
	}

	l.spans.Reset()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	fork, err := s.Fork(t.Context(), h.After, &session.CreateOptions{ID: "s2"})
	require.NoError(t, err)
	_, err = fork.Append(t.Context(), transcript.UserText("q"), transcript.AssistantText("a"))
	require.NoError(t, err)
	l.spans.Reset()
	require.NoError(t, l.Replay(t.Context(), fork, nil))
	require.Equal(t, 2, strings.Count(l.tree(t), "gen_ai.conversation.id=s2"))

	// A fork may begin with an answer.
	asked := h.Messages[0].Origins[0].Entry
	fork, err = s.Fork(t.Context(), asked, &session.CreateOptions{ID: "s3"})
	require.NoError(t, err)
	_, err = fork.Append(t.Context(), transcript.AssistantText("a"))
	require.NoError(t, err)
	l.spans.Reset()
	require.NoError(t, l.Replay(t.Context(), fork, nil))
	for _, span := range l.spans.Ended() {
		require.False(t, span.EndTime().Before(span.StartTime()), span.Name())
	}
}

func TestNoWords(t *testing.T) {
	for _, name := range []string{"turn.txt", "failed.txt", "panic.txt", "replay.txt"} {
		require.NotContains(t, readTree(t, name), secret)
	}
}

// A memory operation outside of a turn belongs to no session.
func TestMemoryAlone(t *testing.T) {
	l := newLab(t, nil)
	require.NoError(t, l.Memory(t.Context(), "delete_memory", func(context.Context) (int, error) { return -1, nil }))
	require.Equal(t, "1 delete_memory (internal) gen_ai.operation.name=delete_memory\n", l.tree(t))
	require.Equal(t, []string{"gen_ai.client.operation.duration gen_ai.operation.name=delete_memory: 1"}, l.metrics(t))
}
