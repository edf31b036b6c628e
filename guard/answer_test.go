package guard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
)

// named is an interface of an application.
type named any

// An answer that is a response, or points to one, is looked at whatever its static type is:
// one that the window has cut is asked for again.
func TestAnswersOfAnyType(t *testing.T) {
	require.Equal(t, 2, callsOf(t, func(r *transcript.Response) *transcript.Response { return r }))
	require.Equal(t, 2, callsOf(t, func(r *transcript.Response) transcript.Response { return *r }))
	require.Equal(t, 2, callsOf(t, func(r *transcript.Response) any { return r }))
	require.Equal(t, 2, callsOf(t, func(r *transcript.Response) any { return *r }))
	require.Equal(t, 2, callsOf(t, func(r *transcript.Response) named { return r }))
	require.Equal(t, 1, callsOf(t, func(*transcript.Response) string { return "" }))
}

// callsOf returns how many calls a conversation needs of which the first is cut.
func callsOf[T any](t *testing.T, answer func(*transcript.Response) T) (calls int) {
	t.Helper()
	c := newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "m", Window: 100_000}, c, func(context.Context, guard.Call) (T, error) {
		if calls++; calls == 1 {
			return answer(&transcript.Response{StopReason: transcript.StopMaxTokens, Usage: transcript.Usage{Input: 120_000}}), nil
		}
		return answer(&transcript.Response{StopReason: transcript.StopEndTurn, Message: transcript.AssistantText("x")}), nil
	})
	require.NoError(t, err)
	return calls
}
