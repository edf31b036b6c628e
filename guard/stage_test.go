package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
)

// asking is a conversation that asks what the room is needed for.
type asking struct {
	*conversation
	needs []guard.Need
}

func (a *asking) CompactFor(ctx context.Context, n guard.Need) (bool, error) {
	a.needs = append(a.needs, n)
	return a.conversation.CompactFor(ctx, n)
}

// A compactor receives the window of the guard, and the refusal.
func TestCompactFor(t *testing.T) {
	items := []transcript.Item{transcript.UserText(long(200_000)), transcript.AssistantText("two"), transcript.UserText("three")}
	size := guardSize(newConversation(t, items...))
	tests := []struct {
		name    string
		window  int
		err     error
		refused bool
	}{
		{"by estimate", size / 2, nil, false},
		{"refused", size * 2, errTooLong, true},
	}
	for _, tt := range tests {
		a := &asking{conversation: newConversation(t, items...)}
		s := &script{errs: []error{tt.err}}
		if _, err := guard.Do(t.Context(), &guard.Guard{Window: tt.window}, a, s.call); err != nil || len(a.needs) != 1 {
			t.Fatalf("%s: %v, asked %d times", tt.name, err, len(a.needs))
		}
		if n := a.needs[0]; n.Window != tt.window || n.Refused != tt.refused || n.Room <= 0 || n.Counter == nil {
			t.Errorf("%s: %+v", tt.name, n)
		}
	}
	a := &asking{conversation: newConversation(t, items...)}
	if changed, err := guard.Compact().Run(t.Context(), a, guard.Need{}); !changed || err != nil || a.needs[0].Counter == nil {
		t.Errorf("%v, %v, %+v", changed, err, a.needs)
	}
}

// Texts in a row are one message: the error names the one that is too long.
func TestOverflowNamesTheLargestEntry(t *testing.T) {
	c := newConversation(t, transcript.UserText("hi"), transcript.AssistantText("hello"),
		transcript.UserText(long(200_000)), transcript.UserText("forget it"), transcript.UserText("and now?"))
	last := c.fold.History().Messages[2]
	require.Len(t, last.Origins, 3)
	_, err := guard.Do(t.Context(), nil, plain{c}, (&script{errs: []error{errTooLong}}).call)
	e, ok := errors.AsType[*guard.OverflowError](err)
	if !ok || e.Largest != last.Origins[0].Entry || e.LargestSize < 10_000 || e.LargestSize > e.Estimate {
		t.Fatalf("%+v", e)
	}
	require.Contains(t, err.Error(), fmt.Sprintf("%s with ~%d tokens: rewind to the entry in front of it", e.Largest, e.LargestSize))
}
