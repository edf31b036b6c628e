package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// RetentionReport is what [Store.Apply] did.
type RetentionReport struct {
	Items []Applied `json:"items"` // in the order of the plan, as far as Apply got
	Freed int64     `json:"freed"` // bytes of the transcripts that were archived or deleted
}

// Applied is what became of one session of a plan.
type Applied struct {
	Ref
	// Outcome is done, changed (the session was written to or deleted since the plan
	// was made), protected or failed.
	Outcome string `json:"outcome"`
	// Reason is why a session is protected, as in [Planned], or turn if a turn is
	// running; of a failure it is the text of the error.
	Reason string `json:"reason,omitempty"`
}

// The outcomes.
const (
	applied       = "done"
	changed       = "changed"
	leftProtected = "protected"
	failed        = "failed"
)

var errChanged = errors.New("the session was written to since it was planned for")

// A protectedError says what protects a session.
type protectedError string

func (e protectedError) Error() string { return "protected: " + string(e) }

// deletedAtOnce is how many sessions are locked and deleted together.
const deletedAtOnce = 128

// Apply carries out a plan. It checks each session again under locks that keep
// everybody from writing to it. The session stays if anything was appended since the
// plan was made, if it is protected now, if a turn is running, or if it is no longer
// too old because a clock was corrected. So nothing that was acknowledged after the
// plan was made is lost.
//
// A plan for more than a quarter of the sessions is refused with [ErrForce] unless
// its Force is set. If a session fails, Apply goes on with the others, and the error
// joins all failures. The same plan may be applied again, for example after a crash.
// A driver that is no [driver.Archiver] gives an error that matches
// [errors.ErrUnsupported].
func (st *Store) Apply(ctx context.Context, plan RetentionPlan) (RetentionReport, error) {
	a := applying{store: st, plan: plan, report: RetentionReport{Items: []Applied{}}}
	err := a.run(ctx)
	return a.report, st.wrap("apply", Ref{}, err)
}

func (a *applying) run(ctx context.Context) (err error) {
	if err := a.plan.check(); err != nil {
		return err
	}
	if a.drv, err = able[driver.Archiver](a.store.drv); err != nil {
		return err
	}
	of := max(a.plan.Of, 0) // a plan may come from anywhere
	infos, err := a.store.list(ctx, &ListOptions{State: AnyState, Limit: 1 + of/vouchers})
	if err != nil {
		return err
	}
	a.vouched = vouched(infos, of, a.store.opts.Now())
	step := 1
	if a.plan.Delete {
		step = deletedAtOnce
	}
	for some := range slices.Chunk(a.plan.Items, step) {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(a.errs, err)...)
		}
		if a.apply(ctx, some); a.over {
			break
		}
	}
	return errors.Join(a.errs...)
}

// applying is one call of Apply.
type applying struct {
	store   *Store
	drv     driver.Archiver
	plan    RetentionPlan
	vouched time.Time
	report  RetentionReport
	errs    []error
	over    bool // the store was closed
}

// apply deals with some items.
func (a *applying) apply(ctx context.Context, items []Planned) {
	errs := make([]error, len(items))
	var refs []Ref // to delete
	var at []int   // where they are among the items
	for i, item := range items {
		switch {
		case item.Protected != "":
			errs[i] = protectedError(item.Protected)
		case a.plan.Delete:
			refs, at = append(refs, item.Ref), append(at, i)
		default:
			errs[i] = a.store.archive(ctx, item.Ref, a.check(items))
		}
	}
	for i, err := range a.drv.DeleteIf(ctx, refs, a.check(items)) {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // by an earlier call, or somebody else
		}
		errs[at[i]] = a.store.moved(ctx, "delete", refs[i], err)
	}
	for i, item := range items {
		a.note(item, errs[i])
	}
}

// check returns the function that looks again at one of the items that are due.
func (a *applying) check(items []Planned) func(driver.Row) error {
	of := make(map[Ref]Planned, len(items))
	for _, item := range items {
		if item.Protected == "" { // that one allows nothing
			of[item.Ref] = item
		}
	}
	return func(row driver.Row) error {
		item := of[row.Ref()]
		if row.Size != item.Size {
			return errChanged
		}
		if p := protection(infoOf(row, a.store.opts.Now), item.Expires, item.Why, a.store.opts.Now(), a.vouched, a.plan.Force); p != "" {
			return protectedError(p)
		}
		return nil
	}
}

// note notes what became of an item.
func (a *applying) note(item Planned, err error) {
	done := Applied{Ref: item.Ref, Outcome: applied}
	protected, isProtected := errors.AsType[protectedError](err)
	switch {
	case err == nil:
		a.report.Freed += item.Size
	case isProtected:
		done.Outcome, done.Reason = leftProtected, string(protected)
	case errors.Is(err, ErrBusy):
		done.Outcome, done.Reason = leftProtected, turnRunning
	case errors.Is(err, errChanged), errors.Is(err, fs.ErrNotExist):
		done.Outcome = changed
	default:
		done.Outcome, done.Reason = failed, err.Error()
		a.errs = append(a.errs, err)
		a.over = errors.Is(err, ErrClosed)
	}
	a.report.Items = append(a.report.Items, done)
}

// RunRetention plans and applies r at once and then at every interval, in the
// goroutine of the caller. It returns only when ctx is done, the store is closed, r
// or every is invalid, or the driver cannot archive, and the error is never nil. Any
// other failure, a refused plan included, goes to [Options].Logger, and the next
// round tries again.
func (st *Store) RunRetention(ctx context.Context, r Retention, every time.Duration) error {
	if every <= 0 {
		return fmt.Errorf("session: run retention: every %v: %w", every, fs.ErrInvalid)
	}
	timer := time.NewTicker(every)
	defer timer.Stop()
	for {
		plan, err := st.PlanRetention(ctx, r)
		if err == nil {
			_, err = st.Apply(ctx, plan)
		}
		for _, end := range []error{ErrClosed, fs.ErrInvalid, errors.ErrUnsupported} {
			if errors.Is(err, end) && ctx.Err() == nil {
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			st.opts.Logger.Warn("retention was not applied to all sessions; the next round tries again", "err", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("session: run retention: %w", ctx.Err())
		case <-timer.C:
		}
	}
}
