package retain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
)

// A Report lists the results of [Apply].
type Report struct {
	Items []Result `json:"items"` // in the order of the plan, up to the session where Apply stopped
	Freed int64    `json:"freed"` // bytes of the transcripts that were archived or deleted
}

// A Result is the fate of one session of a plan.
type Result struct {
	session.Ref
	// Outcome is done, changed, protected or failed. Changed means that the session was
	// written to or deleted since the plan was made.
	Outcome string `json:"outcome"`
	// Reason is the protection of a protected session, as in [Item], or turn if a turn
	// is running. For a failure it is the text of the error.
	Reason string `json:"reason,omitempty"`
}

// The outcomes.
const (
	done          = "done"
	changed       = "changed"
	leftProtected = "protected"
	failed        = "failed"
)

// A protectedError holds the protection of a session.
type protectedError string

func (e protectedError) Error() string { return "protected: " + string(e) }

// Apply carries out a plan, and adds each session that it deletes to the ledger, see
// [Removals]. It checks each session again just before it changes it. The session stays
// if anything was appended since the plan was made, if it is protected now, or if a
// turn is running. It also stays if it is no longer too old, because a clock was
// corrected. The store checks under its locks that nothing was appended, so no
// acknowledged message is lost.
//
// Apply refuses a plan for more than a quarter of the sessions with [ErrForce], unless
// its Force is set. The trash of a refused plan also stays, because a fast clock may
// have made the plan. Without Force, Apply also refuses a plan if the clock went back:
// if the plan, or the last message of more than a quarter of the sessions, is more than
// an hour later than now. If a session fails, Apply continues with the others, and the
// error joins all failures. The same plan may be applied again, for example after a
// crash. If the driver cannot archive, the first session to archive gives an error that
// matches [errors.ErrUnsupported].
func Apply(ctx context.Context, st *session.Store, plan Plan) (Report, error) {
	a := application{st: st, plan: plan, report: Report{Items: []Result{}}}
	err := a.run(ctx)
	if err != nil {
		err = fmt.Errorf("retain: apply: %w", err)
	}
	st.Audit(ctx, session.Action{Name: "retention", Err: err})
	return a.report, err
}

// An application is one call of Apply.
type application struct {
	st     *session.Store
	plan   Plan
	report Report
}

func (a *application) run(ctx context.Context) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	var errs []error
	for _, item := range a.plan.Items {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		err := a.note(item, a.apply(ctx, item))
		if err != nil {
			errs = append(errs, err)
		}
		if errors.Is(err, session.ErrClosed) || errors.Is(err, errors.ErrUnsupported) {
			break
		}
	}
	return errors.Join(errs...)
}

// check returns an error if the plan must not be applied.
func (a *application) check(ctx context.Context) error {
	if err := a.plan.check(); err != nil {
		return err
	}
	infos, err := a.st.List(ctx, &session.ListOptions{State: session.AnyState, Since: a.plan.now().Add(recentAge)})
	ahead := slices.DeleteFunc(infos, func(info session.Info) bool { return !selectable(info, a.plan.Delete) })
	if err == nil && len(ahead) > 0 && 4*len(ahead) > a.plan.Of { // a few sessions come from imports, or from programs with a wrong clock
		err = a.plan.checkClock(ahead[0].UpdatedAt)
	}
	return err
}

// apply archives or deletes a session, unless it is protected or has changed.
func (a *application) apply(ctx context.Context, item Item) error {
	if item.Protected != "" {
		return protectedError(item.Protected)
	}
	now, err := a.look(ctx, item)
	if err != nil {
		return err
	}
	if p := protection(now, item.Expires, item.Why, a.plan.now()); p != "" && now.End > 0 {
		return protectedError(p)
	}
	if !a.plan.Delete && item.Why != whyTrash {
		return a.st.SetState(ctx, item.Ref, session.Archived, now.End)
	}
	remove := func() error { return a.st.DeleteAt(ctx, item.Ref, now.End) }
	if now.ID == "" { // changed or deleted: its zero End fits no log
		err = remove()
	} else {
		err = account(ctx, a.st, now, item.Why, a.plan.now(), remove)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted by an earlier call, or another program
	}
	return err
}

// look returns the current Info of a session. If anything was appended since the plan
// was made, or the session was deleted, it returns the zero Info, whose End fits no
// log. It reads only the index.
func (a *application) look(ctx context.Context, item Item) (session.Info, error) {
	at := &session.ListOptions{Key: session.Key{Agent: item.Agent}, State: item.state(), Since: item.UpdatedAt, Until: item.UpdatedAt.Add(1), Limit: 16}
	for {
		infos, err := a.st.List(ctx, at)
		i := slices.IndexFunc(infos, func(info session.Info) bool { return info.Ref == item.Ref && info.End == item.End })
		if i >= 0 {
			return infos[i], err
		}
		if err != nil || len(infos) < at.Limit {
			return session.Info{}, err
		}
		at.After = infos[len(infos)-1].Cursor
	}
}

// state returns the state with which a list finds the session.
func (item Item) state() session.State {
	if item.Why == whyTrash {
		return session.Trashed
	}
	return session.AnyState
}

// note adds the result of an item to the report, and returns the error of a failure.
func (a *application) note(item Item, err error) error {
	result := Result{Ref: item.Ref, Outcome: done}
	protected, isProtected := errors.AsType[protectedError](err)
	switch {
	case err == nil:
		a.report.Freed += item.Size
	case isProtected:
		result.Outcome, result.Reason = leftProtected, string(protected)
	case errors.Is(err, session.ErrBusy):
		result.Outcome, result.Reason = leftProtected, turnRunning
	case errors.Is(err, session.ErrConflict), errors.Is(err, fs.ErrNotExist):
		result.Outcome = changed
	default:
		result.Outcome, result.Reason = failed, err.Error()
	}
	a.report.Items = append(a.report.Items, result)
	if result.Outcome == failed {
		return err
	}
	return nil
}

// Run previews and applies p at once and then at every interval, in the goroutine of
// the caller. It returns only if ctx is done, the store is closed, p or every is
// invalid, or the driver cannot archive. The error is never nil. Run passes any other
// error to failed, if that is not nil, and tries again in the next round. A refused
// plan is such an error.
func Run(ctx context.Context, st *session.Store, p Policy, every time.Duration, failed func(error)) error {
	if every <= 0 {
		return fmt.Errorf("retain: run: every %v: %w", every, fs.ErrInvalid)
	}
	timer := time.NewTicker(every)
	defer timer.Stop()
	for {
		plan, err := Preview(ctx, st, p)
		if err == nil {
			_, err = Apply(ctx, st, plan)
		}
		for _, end := range []error{session.ErrClosed, fs.ErrInvalid, errors.ErrUnsupported} {
			if errors.Is(err, end) && ctx.Err() == nil {
				return err
			}
		}
		if err != nil && ctx.Err() == nil && failed != nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("retain: run: %w", ctx.Err())
		case <-timer.C:
		}
	}
}
