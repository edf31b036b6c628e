package guard

import (
	"context"

	"github.com/convolog/convolog/transcript/tokens"
)

// Stage makes a history smaller. A stage that has an effect commits it to the
// history.
type Stage struct {
	Name string // one word, for events and errors
	// Run reports whether the history has changed. An error means that it has
	// not.
	Run func(ctx context.Context, h History, n Need) (changed bool, err error)
}

// Need is what a [Stage] has to make room for.
type Need struct {
	Overflow Overflow
	// Window is how many tokens the model takes at most, as far as it is known
	// from the [Guard] or the error: it may be less. 0 if nothing is known.
	Window int
	// Room is how many tokens the history may have, counted by Counter: the
	// window without the output, the system prompt and the tools. 0 if it is
	// not known.
	Room int
	// Counter counts tokens; nil means tokens.Estimator.
	Counter tokens.Counter
}

func (n Need) counter() tokens.Counter {
	if n.Counter == nil {
		return tokens.Estimator{}
	}
	return n.Counter
}

// Compact is the stage "compact", that has the older part of the history
// replaced by a summary, if the history is a [Compactor]. If it is not, it does
// nothing.
func Compact() Stage {
	return Stage{Name: "compact", Run: func(ctx context.Context, h History, n Need) (bool, error) {
		if c, ok := h.(Compactor); ok {
			return c.CompactTo(ctx, n.Room, n.counter())
		}
		return false, nil
	}}
}
