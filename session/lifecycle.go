package session

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Calls go on from one state to the next by entries that name them by their own
// entry IDs, because tool-use IDs may occur twice; [Session.Pending] says them.
// Where another program has written several calls in one line, its ID stands for
// all of them that have no result. An entry is appended if the call is still in a state that allows it: check and
// write are one step, also against other processes.

// Dispatch records that the tools of calls are about to be started. When it
// returns nil that is on stable storage, whatever [Options].Sync says: a call
// that was started is never taken for one that was not. After a restart it is
// [rebuild.Dispatched] until its result is appended, and nobody can know whether
// its tool has run; the application knows whether running it again does harm.
//
// The error matches [ErrConflict], and nothing was written, if a call has a
// result, is held or rejected, or was dispatched before.
func (t *Turn) Dispatch(ctx context.Context, calls ...string) error {
	return t.dispatch(ctx, "", calls...)
}

func (t *Turn) dispatch(ctx context.Context, id string, entries ...string) error {
	err := t.s.mark(ctx, "dispatch", id, entries, func(c rebuild.PendingCall) (transcript.Item, bool) {
		return transcript.Dispatch{Call: c.Entry, CallID: c.Call.ID}, c.State == rebuild.NotStarted || c.State == rebuild.Approved
	})
	if err != nil {
		return err
	}
	return t.s.Flush(ctx)
}

// Decide records whether a call may be run: Hold that a person is to decide,
// Approve and Reject what was decided. By and reason are free texts; the model is
// told the reason of a rejection, which stands for the result of the call.
//
// The first approval or rejection holds. After it, and once the call was
// dispatched or has a result, the error matches [ErrConflict] and nothing was
// written.
func (s *Session) Decide(ctx context.Context, call string, verdict transcript.Verdict, by, reason string) error {
	if !slices.Contains([]transcript.Verdict{transcript.Hold, transcript.Approve, transcript.Reject}, verdict) {
		return s.store.wrap("decide", s.ref, fmt.Errorf("a decision %q: want hold, approve or reject; nothing was written", verdict))
	}
	return s.mark(ctx, "decide", "", []string{call}, func(c rebuild.PendingCall) (transcript.Item, bool) {
		d := transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: verdict, By: by, Reason: reason}
		return d, c.State == rebuild.NotStarted || c.State == rebuild.Held && verdict != transcript.Hold
	})
}

// mark appends what item returns for each call of the entries, if it allows that. A
// tool-use ID that is not empty leaves out the other calls of the entries.
func (s *Session) mark(ctx context.Context, op, id string, entries []string, item func(rebuild.PendingCall) (transcript.Item, bool)) error {
	_, err := s.Update(ctx, op, func(v *View) (items []transcript.Item, err error) {
		pending := v.Fold().Pending().Calls
		for _, entry := range entries {
			n := len(items)
			for _, c := range pending {
				if c.Entry != entry || id != "" && c.Call.ID != id {
					continue
				}
				it, ok := item(c)
				if !ok {
					return nil, fmt.Errorf("%w: the call %s of entry %s is %s: nothing was written", ErrConflict, c.Call.Name, c.Entry, c.State)
				}
				items = append(items, it)
			}
			if len(items) == n {
				return nil, fmt.Errorf("%w: there is no call with the entry ID %q and without a result: nothing was written; use an ID that Pending gives", ErrConflict, entry)
			}
		}
		return items, nil
	})
	return err
}

// RunTools calls run for each call of an answer, at most limit at the same time
// (all of them if limit is 0), and appends each result as soon as it is there.
// With a nil error each call has a result.
//
// Run returns a result of the call it was given: see [transcript.ToolResult] and
// [transcript.ToolError]. It is called in goroutines of RunTools, which have ended
// when RunTools returns. If ctx is done, a call that has not begun gets an error
// result instead, and results are appended all the same: the history then says
// what was done and what was not.
//
// If a result cannot be appended, the context of the other calls is cancelled and
// no further one begins. [Session.Pending] has the calls without a result, which
// can be given to RunTools again.
func (s *Session) RunTools(
	ctx context.Context, calls []transcript.ToolCallBlock, limit int,
	run func(ctx context.Context, call transcript.ToolCallBlock) transcript.Message,
) error {
	return each(ctx, calls, limit, func(running context.Context, call transcript.ToolCallBlock) error {
		if running.Err() != nil && ctx.Err() == nil {
			return nil // another result could not be appended
		}
		var result transcript.Message
		if err := ctx.Err(); err != nil {
			result = transcript.ToolError(call.ID, fmt.Sprintf("%s was not run: %v", call.Name, err))
		} else {
			result = run(running, call)
		}
		_, err := s.Append(context.WithoutCancel(ctx), result)
		return err
	})
}

// RunTools runs the calls of the last answer that are not started or approved, as
// [Session.RunTools] does, and dispatches each before it is started. Those that
// are held, rejected or dispatched are left as they are: see [Session.Pending].
func (t *Turn) RunTools(
	ctx context.Context, limit int, run func(ctx context.Context, call transcript.ToolCallBlock) transcript.Message,
) error {
	pending, err := t.s.Pending(ctx)
	if err != nil {
		return err
	}
	return each(ctx, pending.Calls, limit, func(running context.Context, c rebuild.PendingCall) error {
		if c.State != rebuild.NotStarted && c.State != rebuild.Approved {
			return nil
		}
		if running.Err() != nil {
			return running.Err() // it stays not started
		}
		if err := t.dispatch(running, c.Call.ID, c.Entry); err != nil {
			return err
		}
		_, err := t.s.Append(context.WithoutCancel(ctx), run(running, c.Call))
		return err
	})
}

// each calls f for all calls, at most limit at the same time, or all if limit is 0.
// Once one has failed the context of the others is done.
func each[T any](ctx context.Context, calls []T, limit int, f func(running context.Context, call T) error) error {
	group, running := errgroup.WithContext(ctx)
	if limit > 0 {
		group.SetLimit(limit)
	}
	for _, call := range calls {
		group.Go(func() error { return f(running, call) })
	}
	return group.Wait()
}
