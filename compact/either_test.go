package compact_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

func says(text string, err error) compact.Summarizer {
	return compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) { return text, err })
}

func TestEither(t *testing.T) {
	e1, e2 := errors.New("one"), errors.New("two")
	for _, tt := range []struct {
		name string
		s    []compact.Summarizer
		want string
		errs []error
	}{
		{"first", []compact.Summarizer{says("a", nil), says("b", nil)}, "a", nil},
		{"second", []compact.Summarizer{says("half", e1), says("b", nil)}, "b", nil},
		{"blank", []compact.Summarizer{says(" \n\u200b\ufeff", nil), says("b", nil)}, "b", nil},
		{"all fail", []compact.Summarizer{says("", e1), says("", nil), says("", e2)}, "", []error{e1, compact.ErrEmpty, e2}},
	} {
		got, err := compact.Either(tt.s...).Summarize(t.Context(), compact.Input{})
		if got != tt.want || (err == nil) != (tt.errs == nil) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
		for _, want := range tt.errs {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v is not %v", tt.name, err, want)
			}
		}
	}
	_, err := compact.Either().Summarize(t.Context(), compact.Input{})
	require.Error(t, err)
	model := compact.Model{Complete: func(context.Context, transcript.Request) (*transcript.Response, error) { return nil, e1 }}
	in := compact.Input{Messages: []transcript.Message{transcript.UserText("hello")}}
	got, err := compact.Either(model, compact.Extractive{}).Summarize(t.Context(), in)
	require.NoError(t, err)
	require.NotEmpty(t, got)
}

func TestEitherCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cause := errors.New("first")
	first := compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		cancel()
		return "", cause
	})
	second := compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		t.Error("another one was asked")
		return "x", nil
	})
	_, err := compact.Either(first, second).Summarize(ctx, compact.Input{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cause)
	_, err = compact.Either(second).Summarize(ctx, compact.Input{})
	require.ErrorIs(t, err, context.Canceled)
}

// A summarizer that hangs until the deadline leaves time for the next.
func TestEitherDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		hangs := compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		got, err := compact.Either(hangs, says("b", nil)).Summarize(ctx, compact.Input{})
		require.Equal(t, "b", got)
		require.NoError(t, err)
		_, err = compact.Either(hangs, hangs).Summarize(ctx, compact.Input{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
