package compact

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode"
)

// Either returns a [Summarizer] that asks one after the other until one
// succeeds, which means that it returns no error and a text that is not refused,
// see [ErrEmpty] and those after it. Either(Model{...}, Extractive{}) has a summary
// also when the model fails. Input.Observe is told why one was skipped.
//
// When ctx is done nobody else is asked. Each has the Timeout of [Options] for
// itself, so a stand-in is not late because of the one before it. Where ctx has a
// deadline, each but the last has three quarters of the time until then. If all
// fail the error is those of all of them, joined. Either of none always fails.
func Either(s ...Summarizer) Summarizer { return either(s) }

type either []Summarizer

// Summarize implements [Summarizer].
func (s either) Summarize(ctx context.Context, in Input) (string, error) {
	if len(s) == 0 {
		return "", errors.New("there is no summarizer")
	}
	var errs []error
	for i, one := range s {
		if err := ctx.Err(); err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		last := i == len(s)-1
		text, err := inPart(ctx, one, in, !last)
		if err == nil {
			err = in.refuse(text)
		}
		if err == nil {
			return text, nil
		}
		err = fmt.Errorf("summarizer %d of %d: %w", i+1, len(s), err)
		errs = append(errs, err)
		if !last && ctx.Err() == nil {
			in.tell(Step{Skipped: err})
		}
	}
	return "", errors.Join(errs...)
}

// inPart asks a summarizer, in a part of the time only if there is another.
func inPart(ctx context.Context, s Summarizer, in Input, more bool) (string, error) {
	if deadline, ok := ctx.Deadline(); ok && more {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	return in.ask(ctx, s)
}

// blank reports whether a text has nothing that can be seen.
func blank(s string) bool {
	for _, r := range s {
		if unicode.IsGraphic(r) && !unicode.IsSpace(r) {
			return false
		}
	}
	return true
}
