package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
)

// An application's patterns for its gateway come before the rules, but not before
// a cancellation.
func TestPatterns(t *testing.T) {
	says := func(name, word string, k guard.Kind) guard.Pattern {
		return guard.Pattern{Name: name, Match: func(status int, codes []string, text string) (guard.Kind, bool) {
			return k, strings.Contains(text, word) || slices.Contains(codes, word) || word == fmt.Sprint(status)
		}}
	}
	g := &guard.Guard{Patterns: []guard.Pattern{
		{Name: "without a function"},
		says("gateway", "brimful", guard.Tokens),
		says("code", "e_77", guard.Bytes),
		says("status", "418", guard.RateLimit),
		says("preview", "preview", guard.NotOverflow),
	}}
	tests := []struct {
		err  error
		want guard.Overflow
	}{
		{errors.New("the jug is brimful: 9000 tokens, 8192 allowed"), guard.Overflow{Kind: guard.Tokens, Prompt: 9000, Limit: 8192, Rule: "gateway"}},
		{fmt.Errorf("call: %w", &fieldError{Code: "E_77", Message: "no"}), guard.Overflow{Kind: guard.Bytes, Rule: "code"}},
		{&fieldError{StatusCode: 418}, guard.Overflow{Kind: guard.RateLimit, Rule: "status"}},
		{errors.New("preview: prompt is too long: 3000 tokens > 2000 maximum"), guard.Overflow{Rule: "preview"}},
		{fmt.Errorf("brimful: %w", context.Canceled), guard.Overflow{Rule: "canceled"}},
		{errors.New("HTTP 400: context_length_exceeded"), guard.Classify(errors.New("HTTP 400: context_length_exceeded"))},
	}
	for _, tt := range tests {
		if got := g.Classify(tt.err); got != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.err, got, tt.want)
		}
	}
	require.Equal(t, guard.Classify(errTooLong), (*guard.Guard)(nil).Classify(errTooLong))
}

// An answer without a word is an overflow if the application decides so, and
// where the prompt takes most of the window.
func TestEmptyBody(t *testing.T) {
	bare := []error{
		errors.New("400 status code (no body)"), errors.New("413 (no body)"), errors.New("400 Bad Request"), &fieldError{StatusCode: 400},
	}
	for _, err := range bare[:3] {
		if o := (&guard.Guard{Patterns: []guard.Pattern{guard.EmptyBody()}}).Classify(err); o.Kind != guard.Tokens {
			t.Errorf("%v: %+v", err, o)
		}
	}
	require.Empty(t, guard.Classify(bare[0]).Kind)
	for _, text := range []string{"401 status code (no body)", "400 status code (no body): temperature is out of range", "context canceled"} {
		if o := (&guard.Guard{Patterns: []guard.Pattern{guard.EmptyBody()}}).Classify(errors.New(text)); o.Kind != guard.NotOverflow {
			t.Errorf("%s: %+v", text, o)
		}
	}
	for window, calls := range map[int]int{0: 2, 6_000: 2, 70_000: 1} {
		c := newConversation(t, transcript.UserText(long(15_000)), transcript.AssistantText("two"), transcript.UserText("three"))
		s := &script{errs: []error{bare[0]}}
		_, err := guard.Do(t.Context(), &guard.Guard{Window: window, MaxOutput: 100, Patterns: []guard.Pattern{guard.EmptyBody()}}, c, s.call)
		if len(s.calls) != calls || (err == nil) != (calls == 2) || calls == 1 && err != bare[0] { //nolint:errorlint // the very same error
			t.Errorf("window %d: %v after %d calls", window, err, len(s.calls))
		}
	}
}
