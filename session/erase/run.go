package erase

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Run carries out a plan. When the error is nil, nothing that the plan selects is left
// in the store or with the Erasers: not in transcripts, rows, archives, summaries and
// carried members, clips, sources of imports, drafts, state or blobs. Sessions that
// lost only entries still load, and their histories are as valid as before. They also
// lose the reasoning after an erased entry, because a provider would refuse it there. A
// retry under the idempotency key of an erased append is still found as repeated. A
// fork made during the deletion of its base loses all copied lines.
//
// Run first stores the plan. After an error it may be called again with the same plan,
// and the receipt is about that call alone. After a kill, [Resume] finishes the erase in
// the store; for the Erasers, plan again. A plan that another process is carrying out
// gives an error that matches [session.ErrBusy]. Other users of an erased session get
// [session.ErrReplaced] once, in a running turn too, and loops that follow it end as if
// it had been deleted.
//
// Without a driver.Rewriter only whole sessions can be erased, and not the copies in
// forks that are made during the call; any other plan gives an error that matches
// [errors.ErrUnsupported].
func Run(ctx context.Context, st *session.Store, p Plan, also ...transcript.Eraser) (Receipt, error) {
	r := run{st: st, plan: &p, receipt: Receipt{ID: p.ID, Beyond: slices.Clone(beyondReach)}}
	err := r.start(ctx, also)
	r.receipt.Done = time.Now().UTC()
	if err != nil {
		err = fmt.Errorf("erase: %w", err)
	}
	return r.receipt, err
}

// Resume finishes the erases that killed processes have begun, each in the scope in which
// it was begun. Erases that a live process carries out continue there. Programs that open
// a store for writing call it at their start; if there is nothing to finish it lists one
// agent.
func Resume(ctx context.Context, st *session.Store) error {
	stored, err := st.List(ctx, &session.ListOptions{Key: session.Key{Agent: agent}, State: session.AnyState})
	for _, info := range stored {
		one := resume(ctx, st, info)
		if one != nil && !errors.Is(one, session.ErrBusy) && !errors.Is(one, fs.ErrNotExist) { // else another process has it, or had
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
	rec, err := open(ctx, st, info.ID)
	if err != nil {
		return err
	}
	defer rec.release()
	r := run{st: st, record: rec}
	if r.plan, err = rec.read(ctx); err != nil {
		return err
	}
	return r.finish(ctx)
}

// A run carries out a plan.
type run struct {
	st      *session.Store
	plan    *Plan
	record  *record
	receipt Receipt
	seen    map[session.Ref]bool // sessions other than late forks; nil before the first look
}

func (r *run) start(ctx context.Context, also []transcript.Eraser) (err error) {
	p := r.plan
	switch {
	case p.ID == "":
		return errors.New("the plan was not made by Preview: nothing was erased")
	case len(also) > 0 && p.subject == nil:
		return errors.New("the plan was read back from JSON and has no subject for the Erasers: nothing was erased; plan again")
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
	if r.record, err = begin(ctx, r.st, p); err != nil {
		return err
	}
	defer r.record.release()
	for _, other := range also {
		places, err := other.Erase(ctx, p.beside())
		r.receipt.Places = append(r.receipt.Places, places...)
		if err != nil {
			return err
		}
	}
	return r.finish(ctx)
}

// finish erases what the store has, and then the record.
func (r *run) finish(ctx context.Context) error {
	if err := r.erase(ctx); err != nil {
		return err
	}
	return r.record.remove(ctx)
}

// erase erases the data in the store. Whole sessions go last: a retry cannot find forks
// of a deleted session. It ends when it finds no new session.
func (r *run) erase(ctx context.Context) error {
	var errs []error
	done := map[session.Ref]bool{}
	for due, late := slices.Clone(r.plan.Entries), false; ; late = true {
		failed := len(errs)
		for _, s := range due {
			done[s.Session] = true
			if slices.Contains(r.plan.Sessions, s.Session) {
				continue
			}
			err := r.entries(ctx, r.plan.eraser(s.Session, setOf(s.Entries)))
			if errors.Is(err, errors.ErrUnsupported) {
				return err
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		if late && len(errs) > failed {
			return errors.Join(errs...)
		}
		now, rows, err := r.since(ctx, done)
		if err == nil && len(now.Entries) == 0 {
			if err := r.whole(ctx, rows); err != nil {
				errs = append(errs, err)
			}
			if len(r.plan.Sessions) == 0 {
				return errors.Join(errs...)
			}
			if rows, err = all(ctx, r.st); err == nil {
				err = r.forked(ctx, rows, &now)
			}
		}
		if err == nil && len(now.Entries) > 0 {
			r.plan.Entries, r.plan.Archived = slices.Concat(r.plan.Entries, now.Entries), slices.Concat(r.plan.Archived, now.Archived)
			err = r.record.add(ctx, &now)
		}
		if due = now.Entries; err != nil || len(due) == 0 {
			return errors.Join(append(errs, err)...)
		}
	}
}

// since returns what the plan selects in sessions that are not done, and all sessions:
// something may have been appended, and forks made, since it was made.
func (r *run) since(ctx context.Context, done map[session.Ref]bool) (now Plan, rows []session.Info, err error) {
	p := r.plan
	now = Plan{Sessions: p.Sessions, subject: p.subject, among: p.among, chosen: p.chosen}
	if p.subject == nil {
		now.chosen = p.Entries
	}
	if rows, err = all(ctx, r.st); err != nil {
		return now, nil, err
	}
	if _, err = now.look(ctx, r.st, rows); err == nil {
		err = r.forked(ctx, rows, &now)
	}
	now.Entries = slices.DeleteFunc(now.Entries, func(s Selection) bool { return done[s.Session] })
	return now, rows, err
}

// forked adds the forks that were made of sessions while these were deleted, with all
// entries that they began with.
func (r *run) forked(ctx context.Context, rows []session.Info, now *Plan) error {
	here := map[session.Ref]bool{}
	for _, row := range rows {
		here[row.Ref] = true
	}
	first := r.seen == nil
	if first {
		r.seen = map[session.Ref]bool{}
	}
	for _, row := range rows {
		base := linked(row.Base)
		was := r.seen[row.Ref] || here[base] || !slices.Contains(r.plan.Sessions, base) || first && row.CreatedAt.Before(r.record.created)
		r.seen[row.Ref] = true
		if was {
			continue
		}
		var ids []string
		left := row.Base.Lines
		for rec, err := range scan(ctx, r.st, row.Ref) {
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return err
			}
			if rec.Entry.ID == row.ID {
				for _, held := range rec.Entry.Standing() {
					ids = append(ids, held.ID)
				}
				continue
			}
			if left--; left < 0 {
				break
			}
			ids = append(ids, rec.Entry.ID)
		}
		if len(ids) == 0 {
			continue
		}
		s := Selection{row.Ref, ids}
		now.Entries, r.plan.chosen = append(now.Entries, s), append(slices.Clip(r.plan.chosen), s)
		if row.State == session.Archived {
			now.Archived = append(now.Archived, row.Ref)
		}
	}
	return nil
}

// whole deletes the sessions that go as a whole.
func (r *run) whole(ctx context.Context, rows []session.Info) error {
	var errs []error
	for _, ref := range r.plan.Sessions {
		row := session.Info{Ref: ref}
		if i := slices.IndexFunc(rows, func(row session.Info) bool { return row.Ref == ref }); i >= 0 {
			row = rows[i]
		}
		places := wholeOf(ctx, r.st, row)
		switch err := r.st.Delete(ctx, ref); {
		case err == nil:
			r.receipt.Places = append(r.receipt.Places, places...)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// entries erases entries of one session, if it has any. An archived session is archived
// again.
func (r *run) entries(ctx context.Context, x *eraser) error {
	s, err := r.st.Get(ctx, x.ref)
	if err != nil {
		return err
	}
	var places []transcript.Place
	change := func(recs records, write func(transcript.Entry) error) (err error) {
		if places, err = x.find(recs); err != nil || len(places) == 0 { // nothing, or an earlier try has ended before the blobs went
			return err
		}
		return x.lines(recs, write)
	}
	err = s.Rewrite(ctx, change)
	archived := errors.Is(err, session.ErrArchived)
	if archived {
		if err = r.st.SetState(ctx, x.ref, session.Live, -1); err == nil {
			err = s.Rewrite(ctx, change)
		}
	}
	if err != nil {
		return err
	}
	r.receipt.Places, r.receipt.Kept = append(r.receipt.Places, places...), append(r.receipt.Kept, x.kept...)
	if archived && len(places) > 0 {
		r.receipt.Places = append(r.receipt.Places, x.place("archive", ""))
	}
	if archived || slices.Contains(r.plan.Archived, x.ref) {
		err = r.st.SetState(ctx, x.ref, session.Archived, -1)
	}
	return err
}
