package turn_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The text of an attempt that failed enters no history: neither when guard.Do makes
// the request smaller and tries again, nor when the answer is appended without a draft.
func TestVoidAttempt(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		s := fresh(t)
		for range 6 {
			storetest.Add(t, s, transcript.UserText(strings.Repeat("question ", 300)), storetest.Answer(strings.Repeat("answer ", 300)))
		}
		storetest.Add(t, s, transcript.UserText("hi"))
		tn := begin(t, s)
		var d *turn.Draft
		tries := 0
		made := map[transcript.Made]bool{}
		resp, err := guard.Do(t.Context(), &guard.Guard{Model: "m", Window: 8_000}, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
			tries++
			made[c.Made] = true
			if direct && tries > 1 {
				return &transcript.Response{Message: transcript.AssistantText("The answer.")}, nil
			}
			d = tn.Draft("anthropic", "m", c.Made)
			require.NoError(t, d.Write(ctx, []string{"VOID", "The answer."}[tries-1]))
			require.NoError(t, d.Flush(ctx))
			if tries == 1 {
				return nil, errors.New("prompt is too long: 250000 tokens > 200000 maximum")
			}
			return &transcript.Response{Message: transcript.AssistantText("The answer.")}, nil
		})
		require.NoError(t, err)
		require.Len(t, made, 2, "the second request differs")
		if direct {
			storetest.Add(t, s, *resp)
		} else {
			require.NoError(t, storetest.ErrOf(d.Finish(t.Context(), resp)))
		}
		require.NoError(t, tn.End())
		before := storetest.History(t, s)
		require.NoError(t, begin(t, s).End())
		require.True(t, before == storetest.History(t, s))
		require.False(t, strings.Contains(before, "VOID"))
	}
}
