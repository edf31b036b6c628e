package erase

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Run carries out a plan. If the error is nil, no data that the plan selects is left in
// the store or with the Erasers: not in transcripts, rows, archives, summaries and
// carried members, clips, sources of imports, drafts, state or blobs. Sessions that
// lost only entries still load, and their histories stay valid. They also lose the
// reasoning after an erased entry, because a provider would refuse it there. A retry
// under the idempotency key of an erased append is still recognised as repeated. A fork
// made during the deletion of its base loses all copied lines. A session in the trash
// that holds data of the plan is deleted.
//
// Run first stores the plan. After an error, Run may be called again with the same
// plan; each receipt covers one call. After a kill, [Resume] finishes the erase in the
// store. For the Erasers, make a new plan. If another process is carrying out the plan,
// the error matches [session.ErrBusy]. Other users of an erased session get
// [session.ErrReplaced] once, even in a running turn. Loops that follow the session end
// as if it had been deleted.
//
// Without a driver.Rewriter, Run can erase only whole sessions, and no copies in forks
// made during the call. Any other plan gives an error that matches
// [errors.ErrUnsupported].
func Run(ctx context.Context, st *session.Store, p Plan, also ...transcript.Eraser) (Receipt, error) {
	r := run{st: st, plan: &p, receipt: Receipt{ID: p.ID, Beyond: slices.Concat(st.Beyond(), beyondReach)}}
	err := r.start(ctx, also)
	r.receipt.Done = time.Now().UTC()
	if err != nil {
		err = fmt.Errorf("erase: %w", err)
	}
	st.Audit(ctx, session.Action{Name: "erase", Err: err})
	return r.receipt, err
}

// Resume finishes the erases that killed processes have begun, each in its original
// scope. It leaves erases alone that a live process is carrying out. Programs that open
// a store for writing call it at their start. If there is nothing to finish, it only
// lists one agent.
func Resume(ctx context.Context, st *session.Store) error {
	stored, err := st.List(ctx, &session.ListOptions{Key: session.Key{Agent: agent}, State: session.AnyState})
	for _, info := range stored {
		one := resume(ctx, st, info)
		if one != nil && !errors.Is(one, session.ErrBusy) && !errors.Is(one, fs.ErrNotExist) { // else another process is finishing it, or has finished it
			err = errors.Join(err, fmt.Errorf("erase: finish %s: %w", info.ID, one))
		}
	}
	return err
}

func resume(ctx context.Context, st *session.Store, info session.Info) (err error) {
	if info.Owner != "" {
		if st, err = st.Scope(info.Owner); err != nil {
			return err
		}
	}
	r := run{st: st}
	return r.locked(ctx, info.ID, func() error {
		if err := r.read(ctx); err != nil {
			return err
		}
		return r.finish(ctx)
	})
}

func (r *run) start(ctx context.Context, also []transcript.Eraser) (err error) {
	p := r.plan
	switch {
	case p.ID == "":
		return &session.InputError{Reason: "the plan was not made by Preview: nothing was erased"}
	case len(also) > 0 && p.subject == nil:
		return &session.InputError{Reason: "the plan was read back from JSON and has no subject for the Erasers: nothing was erased; plan again"}
	}
	if scope := r.st.Owner(); scope != "" && p.subject != nil { // another owner may have made the plan
		own := *p.subject
		if own.Owner != "" && own.Owner != scope {
			return errForeign
		}
		if own.Match != nil {
			own.Owner = scope
		}
		p.subject = &own
	}
	_, err = r.st.Create(ctx, session.Key{Agent: agent}, &session.CreateOptions{ID: p.ID, Title: "an erase"})
	if err != nil && !errors.Is(err, fs.ErrExist) { // else an earlier try has created it
		return err
	}
	return r.locked(ctx, p.ID, func() error {
		if err := r.store(ctx, *p); err != nil {
			return err
		}
		for _, other := range also {
			places, err := other.Erase(ctx, p.beside())
			r.receipt.Places = append(r.receipt.Places, places...)
			if err != nil {
				return err
			}
		}
		return r.finish(ctx)
	})
}

// finish erases the data in the store, and then the stored plan.
func (r *run) finish(ctx context.Context) error {
	if err := r.erase(ctx); err != nil {
		return err
	}
	if err := r.st.Delete(ctx, r.stored.Ref()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// erase erases the data in the store. It lists the sessions again until new ones hold
// nothing to erase and no listed one has vanished. Then the base of every later fork is clean, because Fork refuses a
// base that was rewritten since it was read. Whole sessions go last. After them go the
// copies in forks that were made from them until then.
func (r *run) erase(ctx context.Context) error {
	seen, deleted, restored := map[session.Ref]bool{}, len(r.plan.Sessions) == 0, 0
	for {
		rows, err := all(ctx, r.st)
		if err != nil {
			return err
		}
		l := newLook(r.st, r.plan, rows, seen)
		for _, row := range l.fresh {
			seen[row.Ref] = true
		}
		found, err := l.find(ctx, r.plan.Entries)
		if noteErr := r.note(ctx, l, found); noteErr != nil {
			return errors.Join(err, noteErr)
		}
		r.receipt.Kept = append(r.receipt.Kept, l.keys(found)...)
		errs := []error{err}
		for _, x := range found {
			if row := l.rows[x.ref]; row.State == session.Trashed {
				if len(x.places) == 0 { // an earlier run has erased them
					continue
				}
				err := r.delete(ctx, row, func() error { return r.st.DeleteAt(ctx, row.Ref, row.End) })
				if errors.Is(err, session.ErrConflict) && restored < rereads {
					restored++
					delete(seen, row.Ref)
					err = nil
				}
				errs = append(errs, err)
				continue
			}
			here, err := r.entries(ctx, x)
			if errs = append(errs, err); here {
				r.receipt.Kept = append(r.receipt.Kept, l.kept(x)...)
			}
		}
		errs = append(errs, r.note(ctx, l, found)) // matches that were appended since
		done := len(found) == 0 && !l.lost
		if err = errors.Join(errs...); err != nil || done && deleted {
			return err
		}
		if done {
			if err := r.whole(ctx, l.rows); err != nil {
				return err
			}
			deleted = true
		}
	}
}

// note adds newly found entries to the plan and stores them.
func (r *run) note(ctx context.Context, l *look, found []*eraser) error {
	var now Plan
	known := map[session.Ref]map[string]bool{}
	for _, s := range r.plan.Entries {
		if known[s.Session] == nil {
			known[s.Session] = map[string]bool{}
		}
		for _, id := range s.Entries {
			known[s.Session][id] = true
		}
	}
	for _, x := range found {
		if len(x.gone) == len(known[x.ref]) { // no new ones
			continue
		}
		now.Entries = append(now.Entries, Selection{x.ref, slices.Sorted(maps.Keys(x.gone))})
		if l.rows[x.ref].State == session.Archived {
			now.Archived = append(now.Archived, x.ref)
		}
	}
	if len(now.Entries) == 0 {
		return nil
	}
	r.plan.Entries, r.plan.Archived = append(slices.Clip(r.plan.Entries), now.Entries...), append(slices.Clip(r.plan.Archived), now.Archived...)
	return r.store(ctx, now)
}

// whole deletes the sessions that go as a whole.
func (r *run) whole(ctx context.Context, rows map[session.Ref]session.Info) error {
	var errs []error
	for i, ref := range r.plan.Sessions {
		row, here := rows[ref]
		if owners := r.plan.Owners; here && len(owners) == len(r.plan.Sessions) && row.Owner != owners[i] {
			continue // another session now has the ID
		}
		row.Ref = ref
		errs = append(errs, r.delete(ctx, row, func() error { return r.st.Delete(ctx, ref) }))
	}
	return errors.Join(errs...)
}

// delete deletes a session with remove, unless it no longer exists.
func (r *run) delete(ctx context.Context, row session.Info, remove func() error) error {
	places := wholeOf(ctx, r.st, row)
	err := remove()
	if err == nil {
		r.receipt.Places = append(r.receipt.Places, places...)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// entries erases entries of one session, if it has any. It archives an archived session
// again. It reports whether the session exists and its new lines are in place.
func (r *run) entries(ctx context.Context, x *eraser) (here bool, err error) {
	rewrite := func() error {
		s, err := get(ctx, r.st, x.ref)
		if err != nil {
			return err
		}
		return s.Rewrite(ctx, func(recs records, write func(transcript.Entry) error) error {
			if err := x.find(recs); err != nil || len(x.places) == 0 { // nothing to erase, or an earlier try ended before its blobs went
				return err
			}
			return x.lines(recs, write)
		})
	}
	here, err = unlessGone(rewrite)
	archived := errors.Is(err, session.ErrArchived)
	if archived {
		if err = r.st.SetState(ctx, x.ref, session.Live, -1); err == nil {
			here, err = unlessGone(rewrite)
		}
	}
	if err != nil || !here {
		return false, err
	}
	r.receipt.Places = append(r.receipt.Places, x.places...)
	if archived && len(x.places) > 0 {
		r.receipt.Places = append(r.receipt.Places, x.place("archive", ""))
	}
	if archived || slices.Contains(r.plan.Archived, x.ref) {
		err = r.st.SetState(ctx, x.ref, session.Archived, -1)
	}
	return true, err
}
