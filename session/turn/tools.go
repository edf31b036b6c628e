package turn

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Tool runs a call and returns its result, see [transcript.ToolResult] and
// [transcript.ToolError]. An error becomes an error result that the model sees, and so
// do a panic, see [session.EventToolPanic], and a message that is not the result of the
// call.
type Tool func(ctx context.Context, call rebuild.PendingCall) (transcript.Message, error)

// ErrLater is returned by a [Tool] whose result is appended later, by another process
// for example. The call stays dispatched until then.
var ErrLater = errors.New("the result of the call is appended later")

// RunTools runs the calls of the session that are not started or approved, at most limit
// at the same time (all of them if limit is 0). It dispatches each before it is started,
// see [Dispatch], and appends each result as soon as it is there. Calls that are held,
// rejected or dispatched are left as they are. So with a nil error
// [session.Session.Pending] has no call that could be started.
//
// Run is called in goroutines of RunTools, which have ended when RunTools returns. If
// ctx is done, a call that has not begun stays not started, and results of the others are
// appended all the same: the history then shows which calls have run.
//
// RunTools needs no held turn. A call that another process dispatches, decides or answers
// first is left to that process. If a result cannot be appended, the context of the other
// calls is cancelled and no further one begins.
func RunTools(ctx context.Context, s *session.Session, limit int, run Tool) error {
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	if limit > 0 {
		group.SetLimit(limit)
	}
	for _, c := range pending.Calls {
		if startable(c) {
			group.Go(func() error { return runTool(running, s, run, c) })
		}
	}
	return group.Wait()
}

func runTool(ctx context.Context, s *session.Session, run Tool, c rebuild.PendingCall) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := dispatch(ctx, s, c.Call.ID, c.Entry); err != nil {
		if errors.Is(err, session.ErrConflict) {
			return nil // another process was first
		}
		return err
	}
	result, err := call(ctx, s, run, c)
	if errors.Is(err, ErrLater) {
		return nil
	}
	if err != nil {
		result = transcript.ToolError(c.Call.ID, err.Error())
	}
	_, err = s.Append(context.WithoutCancel(ctx), result)
	return err
}

// call calls run. The error is the reason of a missing result.
func call(ctx context.Context, s *session.Session, run Tool, c rebuild.PendingCall) (result transcript.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool %s panicked: %v", c.Call.Name, p)
			session.Report(ctx, s, session.Event{Kind: session.EventToolPanic, Err: err}, "stack", string(debug.Stack()))
		}
	}()
	result, err = run(ctx, c)
	if err == nil && !answers(result, c.Call.ID) {
		err = fmt.Errorf("the tool %s returned no result of the call", c.Call.Name)
	}
	return result, err
}

// answers reports whether a message has a result of a call and of no other one.
func answers(m transcript.Message, callID string) (ok bool) {
	for _, b := range m.Content {
		if r, isResult := b.(transcript.ToolResultBlock); isResult {
			if r.CallID != callID {
				return false
			}
			ok = true
		}
	}
	return ok && m.Role == transcript.RoleUser
}
