package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/transcript"
)

// CopyOptions of [Copy]. Nil and zero fields are the defaults.
type CopyOptions struct {
	// DryRun writes nothing. The report lists the sessions to copy.
	DryRun bool
	// From and To are where the two stores keep blobs, see package blobs. They may be nil
	// if no session has blobs.
	From, To blobs.Store
	// Each, if not nil, is called after each session, with the error that kept it
	// from being copied, and after a session that has a Left. Calls come one at a time, in
	// any order.
	Each func(CopyResult, error)
}

// A CopyResult is the result of [Copy] for one session.
type CopyResult struct {
	session.Ref
	Created  bool                `json:"created,omitempty"` // the other store did not have it
	Lines    int                 `json:"lines"`             // of the session
	Appended int                 `json:"appended"`          // of these were new to the other store
	Blobs    int                 `json:"blobs,omitempty"`   // were new to it
	Missing  int                 `json:"missing,omitempty"` // blobs that lines name, and that neither store has
	Damage   []transcript.Damage `json:"damage,omitempty"`  // damaged places in the session, which were not copied
	// Fork is the session that [Merge] has made, or continued, with the shorter end of
	// a session that both stores had continued.
	Fork session.Ref `json:"fork,omitzero"`
	// Left, if not empty, is "in the trash" or "deleted": the state of the session in the
	// other store, or of Fork, if that is not empty. Merge has left out the entries that
	// this store added later, or its end of the session.
	Left string `json:"left,omitempty"`
}

// CopyReport counts the work of [Copy] or [Merge].
type CopyReport struct {
	Sessions int `json:"sessions"`        // of the store that was copied from
	Created  int `json:"created"`         // of them were new to the other store
	Changed  int `json:"changed"`         // of them had new lines, those that were new included
	Lines    int `json:"lines"`           // that were new
	Blobs    int `json:"blobs"`           // images, documents and the like that were new
	Missing  int `json:"missing"`         // blobs that lines name and neither store has
	Damage   int `json:"damage"`          // damaged places in files, which were not copied
	Failed   int `json:"failed"`          // sessions
	Forks    int `json:"forks,omitempty"` // sessions with a Fork in their result
	Left     int `json:"left"`            // sessions in the trash, deleted ones that Merge left out, and ledgers of removals
}

// copiers is how many sessions are copied at a time: a database is mostly waited for.
const copiers = 8

// Copy copies the sessions of a store to another one: from a folder to a database, for
// example, and back. All agents, sessions and keys are copied with all of their lines
// unchanged, and with the blobs that these name; archived sessions are archived there
// as well, and the same sessions are current. So histories, exports and listings are
// the same in both stores. Memories and channel logs are not copied: they are not
// sessions. Neither are sessions in the trash, unless they are restored first, nor the
// ledgers of package session/retain.
//
// If the other store has a part of a session already, Copy adds the missing lines and
// blobs. So a copy that was killed can be continued, and an old one can be brought up to
// date. Lines that are appended to a session during the copy may be missing; the next
// call brings them. A place in a damaged file that is not a line cannot be copied: the
// result has it, and everything around it is copied. Nothing is read back afterwards.
//
// If the other store holds lines of a session that the session lacks, because the copy
// was continued or the session was erased from, the error matches [ErrDiverged]. If the
// key has another session there with the same gen, the error matches fs.ErrExist and
// names that session. In both cases nothing was written. Sessions without a readable
// header or key cannot be copied, nor can a file whose header names another session.
// There are two exceptions: the filters of the other store get the lines, whole appends
// and whole answers at a time, and the copy holds the lines that they return; and a line
// without a checksum gets one, unless the other store writes none.
//
// A session that fails does not keep others from being copied; the error joins all
// failures. Further sessions of the other store stay as they are, so sessions that were
// deleted here are not deleted there. If one of them is therefore the current session of
// a key in both stores, the error reports it.
//
// Copy copies eight sessions at a time, and stops when ctx is done. Programs may use the
// store that is copied from during a copy; none should use the copy. A scope copies the
// sessions of its owner.
func Copy(ctx context.Context, from, to *session.Store, opts *CopyOptions) (CopyReport, error) {
	c, err := newCopying(ctx, "copy", from, to, opts)
	if err != nil {
		return c.report, err
	}
	err = c.run(ctx, c.session)
	if err == nil && ctx.Err() == nil && !c.DryRun {
		err = c.wrap(sameCurrent(ctx, c.infos, to))
	}
	return c.report, err
}

// copying is a call of Copy or Merge.
type copying struct {
	CopyOptions

	op       string
	from, to *session.Store
	infos    []session.Info               // of the sessions to copy
	there    map[session.Ref]session.Info // the sessions of the other store before
	report   CopyReport
}

func newCopying(ctx context.Context, op string, from, to *session.Store, opts *CopyOptions) (*copying, error) {
	c := &copying{op: op, from: from, to: to, there: map[session.Ref]session.Info{}}
	if opts != nil {
		c.CopyOptions = *opts
	}
	if err := cmp.Or(opened(from), opened(to)); err != nil {
		return c, err
	}
	every, err := from.List(ctx, &session.ListOptions{State: session.EveryState})
	ledgers, ledgersErr := from.List(ctx, &session.ListOptions{Key: session.Key{Agent: "_removed"}})
	theirs, theirsErr := to.List(ctx, &session.ListOptions{State: session.EveryState})
	if err = cmp.Or(err, ledgersErr, theirsErr); err != nil {
		return c, c.wrap(err)
	}
	c.infos = slices.DeleteFunc(slices.Clone(every), func(i session.Info) bool { return i.State == session.Trashed })
	c.report.Left = len(every) - len(c.infos) + len(ledgers)
	for _, info := range theirs {
		c.there[info.Ref] = info
	}
	return c, nil
}

func (c *copying) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("exchange: %s: %w", c.op, err)
}

// copyTries is more than the writes of another process that a session needs.
const copyTries = 10

// isRaced reports whether another process was faster: one of the two sessions was replaced
// or continued, or the copy was made.
func isRaced(err error) bool {
	return errors.Is(err, session.ErrReplaced) || errors.Is(err, session.ErrConflict) || errors.Is(err, fs.ErrExist)
}

// errLeft means that a session stays as it is because the other store has removed it.
var errLeft = errors.New("the other store has removed it")

// run calls each for the sessions, and joins the errors.
func (c *copying) run(ctx context.Context, each func(context.Context, session.Info) (CopyResult, error)) error {
	var mu sync.Mutex // guards report and errs, and calls of Each
	var errs []error
	var group errgroup.Group
	group.SetLimit(copiers)
	for _, info := range c.infos {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			result, err := each(ctx, info)
			for n := 1; n < copyTries && isRaced(err); n++ {
				result, err = each(ctx, info)
			}
			if err != nil {
				err = fmt.Errorf("session %s of agent %q: %w", info.ID, info.Agent, err)
			}
			if !c.DryRun && !errors.Is(err, errLeft) {
				c.from.Audit(ctx, session.Action{Name: "export", Session: info.Ref, Err: err})
				c.to.Audit(ctx, session.Action{Name: "import", Session: info.Ref, Err: err})
			}
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errLeft) {
				if c.report.Left++; result.Left != "" && c.Each != nil {
					c.Each(result, nil)
				}
				return nil
			}
			c.report.add(result, err)
			if err != nil {
				errs = append(errs, err)
			}
			if c.Each != nil {
				c.Each(result, err)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has them
	if ctx.Err() != nil && len(errs) == 0 {
		errs = append(errs, ctx.Err())
	}
	return c.wrap(errors.Join(errs...))
}

func (r *CopyReport) add(c CopyResult, err error) {
	r.Sessions++
	r.Damage += len(c.Damage)
	if err != nil {
		r.Failed++
		return
	}
	if c.Created {
		r.Created++
	}
	if c.Appended > 0 {
		r.Changed++
	}
	if c.Fork != (session.Ref{}) {
		r.Forks++
	}
	r.Lines, r.Blobs, r.Missing = r.Lines+c.Appended, r.Blobs+c.Blobs, r.Missing+c.Missing
}

// sameCurrent reports the sessions of the copy that are current instead of sessions
// of the store.
func sameCurrent(ctx context.Context, infos []session.Info, to *session.Store) error {
	type key struct{ agent, owner, name string }
	current, known := map[key]string{}, map[session.Ref]bool{}
	for _, info := range infos {
		known[info.Ref] = true
		if info.Current {
			current[key{info.Agent, info.Owner, info.Key}] = info.ID
		}
	}
	theirs, err := to.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range theirs {
		want := current[key{info.Agent, info.Owner, info.Key}]
		if info.Current && want != "" && !known[info.Ref] {
			errs = append(errs, fmt.Errorf("session %s of agent %q is not in the store that was copied, and in the copy it is current in the place of %s: delete it there, or make %s current there",
				info.ID, info.Agent, want, want))
		}
	}
	return errors.Join(errs...)
}
