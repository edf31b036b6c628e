package turn

import (
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Dispatch records that the tools of calls are about to be started. When it returns nil
// the record is on stable storage, whatever the sync policy of the store: a call that
// was started is never taken for one that was not. After a restart the call is
// [rebuild.Dispatched] until its result is appended. Whether its tool has run is then
// unknown; the application must decide whether running it again does harm.
//
// The error matches [session.ErrConflict], and nothing was written, if a call
// already has a result, is held or rejected, or was dispatched before.
func Dispatch(ctx context.Context, s *session.Session, calls ...string) error {
	return dispatch(ctx, s, "", calls...)
}

// dispatch is Dispatch. If id is not empty, only calls with that tool-use ID are
// dispatched.
func dispatch(ctx context.Context, s *session.Session, id string, entries ...string) error {
	err := mark(ctx, s, "dispatch", id, entries, func(c rebuild.PendingCall) (transcript.Item, bool) {
		return transcript.Dispatch{Call: c.Entry, CallID: c.Call.ID}, startable(c)
	})
	if err != nil {
		return err
	}
	return s.Flush(context.WithoutCancel(ctx))
}

// startable reports whether a call may be dispatched.
func startable(c rebuild.PendingCall) bool {
	return c.State == rebuild.NotStarted || c.State == rebuild.Approved
}

// Decide records whether a call may be run: Hold leaves it to a person, Approve and
// Reject are decisions. By and reason are free texts; the model sees the reason of a
// rejection, which is the result of the call.
//
// The first approval or rejection stands. After it, or once the call was dispatched or
// has a result, the error matches [session.ErrConflict] and nothing was written.
func Decide(ctx context.Context, s *session.Session, call string, verdict transcript.Verdict, by, reason string) error {
	if !slices.Contains([]transcript.Verdict{transcript.Hold, transcript.Approve, transcript.Reject}, verdict) {
		return failed("decide", s, fmt.Errorf("a decision %q: want hold, approve or reject; nothing was written", verdict))
	}
	return mark(ctx, s, "decide", "", []string{call}, func(c rebuild.PendingCall) (transcript.Item, bool) {
		d := transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: verdict, By: by, Reason: reason}
		return d, c.State == rebuild.NotStarted || c.State == rebuild.Held && verdict != transcript.Hold
	})
}

// mark appends the result of item for each call of the entries, if item allows
// all. If id is not empty, only calls with that tool-use ID count.
func mark(
	ctx context.Context, s *session.Session, op, id string, entries []string, item func(rebuild.PendingCall) (transcript.Item, bool),
) error {
	_, err := s.Update(ctx, op, func(v *session.View) (items []transcript.Item, err error) {
		pending := v.Fold().Pending().Calls
		for _, entry := range entries {
			n := len(items)
			for _, c := range pending {
				if c.Entry != entry || id != "" && c.Call.ID != id {
					continue
				}
				it, ok := item(c)
				if !ok {
					return nil, conflict(fmt.Sprintf("the call %s of entry %s is already %s: nothing was written", c.Call.Name, c.Entry, c.State))
				}
				items = append(items, it)
			}
			if len(items) == n {
				return nil, conflict(fmt.Sprintf("there is no call with the entry ID %q and without a result: nothing was written; use an ID that Pending returns", entry))
			}
		}
		return items, nil
	})
	return err
}
