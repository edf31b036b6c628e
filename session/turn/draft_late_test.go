package turn_test

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// An answer to rewound entries is refused even if they come before the part that a
// later compaction keeps, which is all that the next process reads. A draft of that
// answer becomes no answer.
func TestAnswerToOldRewoundEntries(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	asked := storetest.Add(t, s, storetest.Answer("two"), transcript.UserText("three"))[1]
	late := transcript.Response{Message: transcript.AssistantText("late"), Made: transcript.Made{After: asked}}
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	d := tn.Draft("anthropic", "m", late.Made)
	require.NoError(t, d.Write(t.Context(), "half an answer"))
	require.NoError(t, d.Flush(t.Context()))
	require.NoError(t, tn.End())
	require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
	storetest.Talk(t, s, 0, 3)
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	storetest.Close(t, st)

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	before := storetest.History(t, s)
	_, err = s.Append(t.Context(), late)
	require.ErrorIs(t, err, session.ErrConflict)
	tn, err = turn.Begin(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, tn.End())
	require.Equal(t, before, storetest.History(t, s))
}

// flaky fails appends that it has written, and then all until a Recover.
type flaky struct {
	driver.Driver
	fail, failed bool
}

func (f *flaky) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	if f.failed {
		return driver.Result{}, &session.NotDurableError{Refused: true, Err: errors.New("no")}
	}
	res, err := f.Driver.Append(ctx, ref, lines, at, decide)
	if f.fail && err == nil {
		f.failed = true
		return driver.Result{}, &session.NotDurableError{Err: errors.New("no")}
	}
	return res, err
}

func (f *flaky) Flush(ctx context.Context, ref driver.Ref, cure bool) error {
	if f.failed = f.failed && !cure; f.failed {
		return &session.NotDurableError{Refused: true, Err: errors.New("no")}
	}
	return f.Driver.Flush(ctx, ref, cure)
}

// A draft whose flush failed holds its text once, whether or not that was
// written.
func TestDraftAfterRecover(t *testing.T) {
	drv := &flaky{Driver: memdriver.New(nil)}
	st := session.OpenDriver(drv, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"))
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	flush := func(ctx context.Context, text string, fails bool) {
		t.Helper()
		if err := cmp.Or(d.Write(ctx, text), d.Flush(ctx)); fails == (err == nil) {
			t.Fatalf("Flush = %v", err)
		}
	}
	flush(t.Context(), "zero ", false)
	drv.fail = true
	flush(t.Context(), "one ", true)
	drv.fail = false
	flush(t.Context(), "", true)     // unknown whether it is there
	flush(t.Context(), "two ", true) // refused
	require.NoError(t, s.Recover(t.Context()))
	flush(t.Context(), "", false)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	flush(done, "three ", true) // not written
	flush(t.Context(), "four ", false)
	drv.fail = true
	flush(t.Context(), "five ", true)
	drv.fail = false
	require.NoError(t, s.Recover(t.Context()))
	flush(t.Context(), "six", false)
	for range 2 { // the second one closes the draft
		require.NoError(t, tn.End())
		tn, err = turn.Begin(t.Context(), s)
		require.NoError(t, err)
	}
	require.NoError(t, tn.End())
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, "zero one two three four five six", h.Messages[len(h.Messages)-1].Text())
}
