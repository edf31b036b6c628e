package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
)

// CopyOptions of [Copy]. Nil and zero fields are the defaults.
type CopyOptions struct {
	// DryRun writes nothing. The report says what would be copied.
	DryRun bool
	// From and To are where the two stores keep blobs, see package blobs. They may be nil
	// if no session has blobs.
	From, To blobs.Store
	// Each, if not nil, is called after each session, with the error that kept it
	// from being copied. Calls come one at a time, in any order.
	Each func(session.Copied, error)
}

// CopyReport counts what [Copy] did.
type CopyReport struct {
	Sessions int `json:"sessions"` // of the store that was copied from
	Created  int `json:"created"`  // of them were new to the other store
	Changed  int `json:"changed"`  // of them had new lines, those that were new included
	Lines    int `json:"lines"`    // that were new
	Blobs    int `json:"blobs"`    // images, documents and the like that were new
	Missing  int `json:"missing"`  // blobs that lines name and neither store has
	Damage   int `json:"damage"`   // places in files that are no lines, and were not copied
	Failed   int `json:"failed"`   // sessions
}

// copiers is how many sessions are copied at a time: a database is mostly waited for.
const copiers = 8

// Copy copies the sessions of a store to another one: from a folder to a database, for
// example, and back. All agents, sessions and keys are copied with all of their lines
// byte for byte, and with the blobs that these name; archived sessions are archived
// there, too, and the same sessions are current. So histories, exports and listings
// are the same in both stores. Memories and channel logs are not
// copied: they are not sessions.
//
// Each session is copied by [session.Store.CopyTo], which says what is guaranteed.
// A Copy that was killed goes on when it is called again, and a later one brings what
// is new. A session that fails does not keep others from being copied; the error
// joins all failures. Further sessions of the other store stay as they are, so
// sessions that were deleted here are not deleted there. If one of them is therefore the
// current session of a key that both stores have, the error says so.
//
// Copy copies eight sessions at a time, and stops when ctx is done. It needs a few
// hundred bytes of memory for each session. Programs may use the store that is copied
// from meanwhile; nobody should use the copy. A scope copies the sessions of its owner.
func Copy(ctx context.Context, from, to *session.Store, opts *CopyOptions) (report CopyReport, err error) {
	var o CopyOptions
	if opts != nil {
		o = *opts
	}
	infos, err := from.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return report, fmt.Errorf("exchange: copy: %w", err)
	}
	var mu sync.Mutex // guards report and errs, and calls of Each
	var errs []error
	var group errgroup.Group
	group.SetLimit(copiers)
	for _, info := range infos {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			c, err := from.CopyTo(ctx, to, info.Ref, o.blobsOf(info.Ref), o.DryRun)
			mu.Lock()
			defer mu.Unlock()
			report.add(c, err)
			if err != nil {
				errs = append(errs, err)
			}
			if o.Each != nil {
				o.Each(c, err)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has them
	if ctx.Err() != nil && len(errs) == 0 {
		errs = append(errs, ctx.Err())
	}
	if len(errs) == 0 && !o.DryRun {
		errs = append(errs, sameCurrent(ctx, infos, to))
	}
	if err := errors.Join(errs...); err != nil {
		return report, fmt.Errorf("exchange: copy: %w", err)
	}
	return report, nil
}

// blobsOf returns the function that copies blobs of a session.
func (o *CopyOptions) blobsOf(ref session.Ref) session.CopyBlobs {
	if o.From == nil {
		return nil
	}
	var has, stored []string // of both stores, before the first is copied
	listed := false
	return func(ctx context.Context, hashes []string) (copied, missing int, err error) {
		if !listed {
			if has, err = o.From.List(ctx, ref); err == nil && o.To != nil {
				stored, err = o.To.List(ctx, ref)
			}
			listed = err == nil
		}
		if err != nil {
			return 0, 0, err
		}
		due := slices.DeleteFunc(slices.Clone(hashes), func(hash string) bool { return slices.Contains(stored, hash) })
		n := len(due)
		due = slices.DeleteFunc(due, func(hash string) bool { return !slices.Contains(has, hash) })
		switch {
		case len(due) == 0 || o.To != nil && o.DryRun:
		case o.To == nil:
			return 0, 0, errors.New("it has images or documents beside its lines, and the other store has no place for them: set CopyOptions.To")
		default:
			missing, err = blobs.Copy(ctx, o.From, o.To, ref, due)
		}
		return len(due) - missing, n - len(due) + missing, err
	}
}

// add counts a session.
func (r *CopyReport) add(c session.Copied, err error) {
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
	r.Lines, r.Blobs, r.Missing = r.Lines+c.Appended, r.Blobs+c.Blobs, r.Missing+c.Missing
}

// sameCurrent reports the sessions of the copy that are current in the place of those
// of the store.
func sameCurrent(ctx context.Context, infos []session.Info, to *session.Store) error {
	type key struct{ agent, name string }
	current, known := map[key]string{}, map[session.Ref]bool{}
	for _, info := range infos {
		known[info.Ref] = true
		if info.Current {
			current[key{info.Agent, info.Key}] = info.ID
		}
	}
	theirs, err := to.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range theirs {
		want := current[key{info.Agent, info.Key}]
		if info.Current && want != "" && !known[info.Ref] {
			errs = append(errs, fmt.Errorf("session %s of agent %q is not in the store that was copied, and in the copy it is current in the place of %s: delete it there, or make %s current there",
				info.ID, info.Agent, want, want))
		}
	}
	return errors.Join(errs...)
}
