package guard

import (
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Stage makes a history smaller. It commits any change to the history.
type Stage struct {
	Name string // one word, for events and errors
	// Kinds are the kinds of overflow that the stage helps with. Nil means every kind
	// for which [Kind.IsOverflow] is true.
	Kinds []Kind
	// Run reports whether the history has changed. An error without a change means that
	// nothing has changed; with a change it reports a partial failure.
	Run func(ctx context.Context, h History, n Need) (changed bool, err error)
}

// Need is the room that a [Stage] has to make.
type Need struct {
	Overflow Overflow
	// Model is the model to be called, if the [Guard] names one.
	Model string
	// Window is the size of the model's window in tokens, from the [Guard], a
	// calibration or an error. If none is known, it is the size of the request, and the
	// real window is smaller. 0 means unknown.
	Window int
	// Room limits the tokens of the history and its prompt, as Counter counts them. It
	// is the window without the output, the system prompt and the tools of the [Guard].
	// 0 means unknown.
	Room int
	// Refused is set if the provider has refused the request, or sent an empty answer.
	// Otherwise the request is too long by estimate.
	Refused bool
	// Counter counts tokens; nil means tokens.Estimator.
	Counter tokens.Counter
	// Recall is set if the tools of the [Guard] include recall_read, with which the
	// model reads texts that a stage removed. The notes of a stage should then name the
	// tool.
	Recall bool
}

// whole returns the words of a note about the entry that holds a whole text.
func (n Need) whole(entry string) string {
	if n.Recall {
		return fmt.Sprintf("all of it is in entry %s, which the tool %s reads", entry, recalltool.Read)
	}
	return "all of it is in entry " + entry
}

func (s Stage) helps(k Kind) bool {
	if s.Kinds == nil {
		return k.IsOverflow()
	}
	return slices.Contains(s.Kinds, k)
}

// editing returns a stage that replaces tool results and other blocks by texts.
func editing(name string, kinds []Kind, clips func(h rebuild.History, n Need) []transcript.Clipping) Stage {
	return Stage{Name: name, Kinds: kinds, Run: func(ctx context.Context, h History, n Need) (changed bool, err error) {
		history, err := h.History(ctx)
		if err != nil {
			return false, err
		}
		list := clips(history, n)
		if len(list) == 0 {
			return false, nil
		}
		_, err = h.Append(ctx, transcript.Clip{Clips: list})
		return err == nil, err
	}}
}

func clipping(o transcript.Origin, content string) transcript.Clipping {
	c := transcript.Clipping{Entry: o.Entry, Content: content}
	if o.Block != transcript.WholeEntry {
		c.Block = &o.Block
	}
	return c
}

func (n Need) size(blocks ...transcript.Block) int {
	return tokens.Or(n.Counter).Count("", nil, []transcript.Message{{Role: transcript.RoleUser, Content: blocks}})
}

// Compact is the stage "compact". It replaces the older part of a [Compactor] by a
// summary, and leaves any other history unchanged.
func Compact() Stage {
	return Stage{Name: "compact", Run: func(ctx context.Context, h History, n Need) (bool, error) {
		c, ok := h.(Compactor)
		if !ok {
			return false, nil
		}
		n.Counter = tokens.Or(n.Counter)
		return c.CompactFor(ctx, n)
	}}
}
