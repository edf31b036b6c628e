package turn_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// dying shows a text that is long enough to be flushed, and ends the process.
type dying struct{ text string }

func (d dying) Stream(_ context.Context, _ transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	show(wire.Delta{Text: d.text})
	os.Exit(3)
	return nil, nil
}

// The next process has the text of an answer that a kill has cut, once.
func TestAskKilled(t *testing.T) {
	const folder = "TEST_KILLED_IN"
	long := strings.Repeat("word ", 1000)
	dir, child := os.LookupEnv(folder)
	if !child {
		dir = t.TempDir()
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAskKilled$")
		again.Env = append(os.Environ(), folder+"="+dir)
		out, _ := again.CombinedOutput()
		require.Equal(t, 3, again.ProcessState.ExitCode(), string(out))
	}
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	defer store.Close()
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "user"})
	require.NoError(t, err)
	if child {
		held, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.UserText("go"))
		require.NoError(t, err)
		_, err = held.Ask(t.Context(), &guard.Guard{Model: "m"}, dying{long}, nil)
		require.NoError(t, err)
	}
	held, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, held.End())
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, 2)
	require.Equal(t, long, h.Messages[1].Text())
	var model strings.Builder
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if m, ok := e.Body.(transcript.MessageLine); ok {
			model.WriteString(m.Model)
		}
	}
	require.Equal(t, "m", model.String())
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.True(t, p.Cut)
}

// scripted is a model that shows a text, and then calls next.
type scripted struct {
	text string
	next func(ctx context.Context)
}

func (m scripted) Stream(ctx context.Context, _ transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	show(wire.Delta{Text: m.text})
	m.next(ctx)
	show(wire.Delta{Text: "late"}) // ctx has ended
	return &transcript.Response{Message: transcript.AssistantText(m.text), StopReason: transcript.StopAborted}, ctx.Err()
}

// once asks a model in a new session, and returns the session and the error of Ask.
func once(t *testing.T, o *session.Options, text string, next func(ctx context.Context, s *session.Session)) (*session.Session, error) {
	t.Helper()
	store := session.OpenDriver(memdriver.New(nil), o)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "user"})
	require.NoError(t, err)
	held, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.End()) }()
	_, err = s.Append(t.Context(), transcript.UserText("go"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = held.Ask(ctx, nil, scripted{text, func(ctx context.Context) { next(ctx, s); cancel() }}, func(text string) { require.NotEqual(t, "late", text) })
	return s, err
}

// drafts returns the flushed texts of a session.
func drafts(t *testing.T, s *session.Session) (text string) {
	t.Helper()
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if d, ok := e.Body.(transcript.Draft); ok {
			text += d.Text
		}
	}
	return text
}

// A text is flushed although no more arrives after it.
func TestFlushedInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := once(t, nil, "one burst", func(_ context.Context, s *session.Session) {
			time.Sleep(time.Second/4 + 1)
			synctest.Wait()
			require.Equal(t, "one burst", drafts(t, s))
		})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A failed flush ends the call of the model. The answer so far is stored, once, if that is
// possible.
func TestFailedFlush(t *testing.T) {
	full, later := errors.New("disk full"), errors.New("still full")
	for _, fails := range []error{nil, later} {
		synctest.Test(t, func(t *testing.T) {
			failing := full
			filter := session.Filter{Write: func(_ context.Context, _ session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
				for _, e := range entries {
					if e.Type() == "draft" || e.Type() == transcript.TypeAssistant {
						return slices.Clone(entries), failing
					}
				}
				return slices.Clone(entries), nil
			}}
			s, err := once(t, &session.Options{Filters: []session.Filter{filter}}, "half\n", func(ctx context.Context, _ *session.Session) {
				<-ctx.Done()
				failing = fails
			})
			h, historyErr := s.History(t.Context())
			require.NoError(t, historyErr)
			if fails == nil {
				require.ErrorIs(t, err, full)
				require.Len(t, h.Messages, 2)
				require.Equal(t, "half\n", h.Messages[1].Text())
			} else {
				require.ErrorIs(t, err, later)
				require.Len(t, h.Messages, 1)
			}
			require.NotErrorIs(t, err, context.Canceled)
		})
	}
}

// A stop reports an answer that is not stored: a rewind has taken back its request.
func TestStoppedAfterARewind(t *testing.T) {
	_, err := once(t, nil, "half", func(_ context.Context, s *session.Session) {
		require.NoError(t, turn.Undo(t.Context(), s, 1))
	})
	require.ErrorIs(t, err, session.ErrConflict)
	require.NotErrorIs(t, err, context.Canceled)
}

// void shows a text, and has no answer after all.
type void struct{ err error }

func (v void) Stream(_ context.Context, _ transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	show(wire.Delta{Text: strings.Repeat("word ", 1000)})
	return nil, v.err
}

// Without an answer the text that was flushed is in no history, now or after a kill.
func TestAskWithoutAnAnswer(t *testing.T) {
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("go"))
	for range 2 {
		held, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		broken := errors.New("broken")
		answer, err := held.Ask(t.Context(), nil, void{broken}, nil)
		require.ErrorIs(t, err, broken)
		require.Nil(t, answer)
		require.NoError(t, held.End())
		require.Contains(t, drafts(t, s), "word")
		h, err := s.History(t.Context())
		require.NoError(t, err)
		require.Len(t, h.Messages, 1)
	}
}
