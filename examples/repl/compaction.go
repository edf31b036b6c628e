package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript/tokens"
)

// overhead is the size of a request without the history, in tokens.
var overhead = tokens.Estimator{}.Count(system, toolDefinitions, nil)

// compaction decides when and how histories are made smaller: after a turn that
// leaves too little of the window for another answer.
func (c *config) compaction(model guard.Client) (compact.Options, error) {
	o := compact.Options{Trigger: compact.Trigger{Window: c.window, Overhead: overhead}, Recall: true}
	how := c.summarizer
	if how == "" && c.url != "" {
		how = "model"
	}
	switch how {
	case "", "extract":
		o.Summarizer = compact.Extractive{}
	case "model":
		o.Summarizer = compact.Either(compact.Model{Complete: model.Complete, Name: c.model, Window: c.window}, compact.Extractive{})
	default:
		return o, fmt.Errorf("-summarizer is %q, not model or extract", how)
	}
	return o, nil
}

// storeEvent prints further actions of the store. Callers get failures and
// print them.
func (t *terminal) storeEvent(ctx context.Context, e session.Event) context.Context {
	switch e.Kind {
	case session.EventCompactionStart:
		t.note("compact", "summarising %d messages (~%s tokens), keeping ~%s tokens...",
			e.Cut.At, thousands(e.Cut.Covered), thousands(e.Cut.Kept))
	case session.EventCompactionStep:
		switch {
		case e.Step.Skipped != "":
			t.note("compact", "no summary from the model, extracting one: %s", e.Step.Skipped)
		case e.Step.Chunks > 1:
			t.note("compact", "reading part %d of %d...", e.Step.Chunk, e.Step.Chunks)
		}
	case session.EventCompactionSkipped:
		t.note("compact", "not tried: %s", e.Cut.Nothing)
	case session.EventCompactionDone:
		t.note("compact", "%d messages -> summary (%s chars): history ~%s -> ~%s tokens",
			e.Cut.At, thousands(utf8.RuneCountInString(e.Compaction.Summary)),
			thousands(e.Compaction.TokensBefore), thousands(e.Compaction.TokensAfter))
	default:
	}
	return ctx
}

// guardEvent prints actions of the guard other than calls. The store reports
// compactions, calls report retries, and the error the end.
func (t *terminal) guardEvent(_ context.Context, e guard.Event) {
	switch o := e.Overflow; {
	case e.Kind == guard.EventOverflow && e.Unsent:
		t.note("guard", "~%s tokens by estimate leave no room for an answer in a window of %s", thousands(e.Before), thousands(o.Limit))
	case e.Kind == guard.EventOverflow && o.Kind == guard.StopReason:
		t.note("guard", "the window is full, the answer was cut (~%s tokens by estimate before it)", thousands(e.Before))
	case e.Kind == guard.EventOverflow && o.Kind != guard.Bytes && o.Limit > 0:
		t.note("guard", "the model refused %s tokens, its limit is %s (~%s by estimate)", thousands(o.Prompt), thousands(o.Limit), thousands(e.Before))
	case e.Kind == guard.EventOverflow:
		t.note("guard", "the model refused the request as too long (~%s tokens by estimate)", thousands(e.Before))
	case e.Kind == guard.EventOutput:
		t.note("guard", "answers may have %s tokens now", thousands(e.MaxOutput))
	case e.Kind == guard.EventStage && e.Stage == "compact" && e.Err != nil:
		t.compactionFailed(e.Err)
	case e.Kind == guard.EventStage && e.Err != nil:
		t.note("guard", "%v", e.Err)
	case e.Kind == guard.EventStage && e.Stage == "clip" && e.Changed:
		t.note("guard", "long tool results shortened: prompt ~%s -> ~%s tokens", thousands(e.Before), thousands(e.After))
	}
}

func (t *terminal) compactionFailed(err error) {
	if errors.Is(err, context.Canceled) {
		t.note("compact", "cancelled; nothing was changed")
	} else if failed, ok := errors.AsType[*compact.Error](err); ok {
		t.note("compact", "failed, nothing was changed: %v", failed.Err)
	} else {
		t.note("compact", "failed: %v", err)
	}
}

func compactNow(ctx context.Context, r *repl, arg string) error {
	o := r.compact
	if arg != "" {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			r.out.say("Usage: /compact [n], with n a number of turns")
			return nil
		}
		o.Keep = compact.Keep{Turns: n}
	}
	var done session.Compacted
	err := r.cancellable(ctx, func(ctx context.Context) (err error) {
		done, err = r.session.Compact(ctx, &o)
		return err
	})
	switch {
	case err != nil:
		r.out.compactionFailed(err)
	case done.Cut.Nothing != "":
		r.out.say("Too few messages to compact (~%s tokens): %s.", thousands(done.Cut.Before), done.Cut.Nothing)
	}
	return nil
}
