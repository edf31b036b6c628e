package erase

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A look finds the entries to erase in sessions that a plan has not reached yet. It
// passes IDs on between the sessions of a descent until no session has new ones.
type look struct {
	st    *session.Store
	plan  *Plan
	rows  map[session.Ref]session.Info // all sessions
	fresh []session.Info               // those to look at
	whole map[session.Ref]bool         // sessions that go as a whole
	forks map[session.Ref][]fork       // session -> fresh ones that descend from it and stay

	asked map[session.Ref]map[string]bool // may name sessions that were deleted
	queue []session.Ref                   // to visit
	due   map[session.Ref]bool            // the same
	found map[session.Ref]*eraser         // of sessions that were visited and stay
	here  map[string]bool                 // requested entries that a session holds
}

// A fork descends from another session, directly or not.
type fork struct {
	session.Ref
	entry string // of the other session: the fork holds nothing that came later
}

// newLook returns a look at the sessions of a store that are not in seen.
func newLook(st *session.Store, p *Plan, rows []session.Info, seen map[session.Ref]bool) *look {
	l := &look{
		st: st, plan: p, rows: map[session.Ref]session.Info{}, whole: setOf(p.Sessions), forks: map[session.Ref][]fork{},
		asked: map[session.Ref]map[string]bool{}, due: map[session.Ref]bool{}, found: map[session.Ref]*eraser{}, here: map[string]bool{},
	}
	for _, row := range rows {
		l.rows[row.Ref] = row
		if seen[row.Ref] {
			continue
		}
		l.fresh = append(l.fresh, row)
		if l.whole[row.Ref] {
			continue
		}
		for _, base := range row.Descent {
			ref := linked(base)
			l.forks[ref] = append(l.forks[ref], fork{row.Ref, base.Entry})
		}
	}
	return l
}

// find returns an eraser for each session with something to erase, and for sessions of
// the plan even if nothing is left there. It continues after an error.
func (l *look) find(ctx context.Context, chosen []Selection) (found []*eraser, err error) {
	var errs []error
	fresh := map[session.Ref]bool{}
	for _, row := range l.fresh {
		fresh[row.Ref] = true
		if l.plan.eraser(row.Ref, nil).match != nil || l.whole[row.Ref] && len(l.forks[row.Ref]) > 0 || l.late(row) {
			l.enqueue(row.Ref)
		}
	}
	for _, s := range chosen {
		if fresh[s.Session] || len(l.forks[s.Session]) > 0 {
			l.ask(s.Session, s.Entries...)
		}
	}
	for len(l.queue) > 0 {
		ref := l.queue[0]
		l.queue = l.queue[1:]
		delete(l.due, ref)
		errs = append(errs, l.visit(ctx, ref))
	}
	planned := map[session.Ref]bool{}
	for _, s := range l.plan.Entries {
		planned[s.Session] = true
	}
	for _, row := range l.fresh {
		if x := l.found[row.Ref]; x != nil && (len(x.places) > 0 || planned[x.ref]) {
			found = append(found, x)
		}
	}
	return found, errors.Join(errs...)
}

// ask adds entries to those of a session.
func (l *look) ask(ref session.Ref, ids ...string) {
	if l.whole[ref] {
		return
	}
	asked := l.asked[ref]
	if asked == nil {
		asked = map[string]bool{}
		l.asked[ref] = asked
	}
	n := len(asked)
	for _, id := range ids {
		asked[id] = true
	}
	if len(asked) > n {
		l.enqueue(ref)
	}
}

func (l *look) enqueue(ref session.Ref) {
	if !l.due[ref] {
		l.due[ref] = true
		l.queue = append(l.queue, ref)
	}
}

// late reports whether a fork was made of a session of the plan while that was deleted:
// all lines that it was made with go.
func (l *look) late(row session.Info) bool {
	if _, here := l.rows[linked(row.Base)]; here || row.Base.Session == "" {
		return false
	}
	for _, base := range row.Descent {
		if _, here := l.rows[linked(base)]; !here && l.whole[linked(base)] {
			return !slices.ContainsFunc(l.plan.Entries, func(s Selection) bool { return s.Session == row.Ref })
		}
	}
	return false
}

// visit finds the entries to erase in a session, and asks for them in the sessions that
// may hold copies, or summaries that have read them.
func (l *look) visit(ctx context.Context, ref session.Ref) error {
	x, row, gone := l.plan.eraser(ref, l.asked[ref]), l.rows[ref], l.asked[ref]
	here := row.ID != ""
	if here {
		var err error
		look := x.find
		if l.whole[ref] {
			look = x.read
		}
		if here, err = unlessGone(func() error { return look(scan(ctx, l.st, ref)) }); err != nil {
			return err
		}
	}
	at := x.at
	switch {
	case !here:
		at = nil
		delete(l.rows, ref)
		delete(l.found, ref)
		for id := range gone {
			l.askBases(row, id)
		}
		for _, f := range l.forks[ref] {
			if l.late(l.rows[f.Ref]) {
				l.enqueue(f.Ref)
			}
		}
	case l.whole[ref]:
		gone = setOf(slices.Collect(maps.Keys(at)))
	default:
		if gone, x.at = x.gone, nil; len(gone) > 0 {
			l.found[ref] = x
		}
	}
	for id := range gone {
		if _, holds := at[id]; holds || len(x.places) > 0 {
			l.here[id] = true
		}
		for _, f := range l.forks[ref] {
			if end, known := at[f.entry]; id != ref.ID && (!known || at[id].batch <= end.line) {
				l.ask(f.Ref, id)
			}
		}
	}
	if l.whole[ref] {
		return nil
	}
	late := l.late(row)
	for id, p := range at {
		switch {
		case p.line > row.Base.Lines || id == ref.ID: // it is no copy
		case gone[id]:
			l.askBases(row, id)
		case late:
			l.ask(ref, id)
		}
	}
	return nil
}

// kept returns the places that an eraser keeps, idempotency keys only if the session has
// them from another owner.
func (l *look) kept(x *eraser) []transcript.Place {
	if l.inherits(l.rows[x.ref]) {
		return x.kept
	}
	return slices.DeleteFunc(slices.Clone(x.kept), func(p transcript.Place) bool { return p.Kind == idemKey })
}

// keys returns the places of keys that forks have taken over from another owner. It leaves
// out forks of the trash in which something was found: they are deleted.
func (l *look) keys(found []*eraser) (kept []transcript.Place) {
	goes := func(row session.Info) bool {
		erased := func(x *eraser) bool { return x.ref == row.Ref && len(x.places) > 0 }
		return l.whole[row.Ref] || row.State == session.Trashed && slices.ContainsFunc(found, erased)
	}
	for _, row := range l.fresh {
		if !goes(row) && l.inherits(row) {
			kept = append(kept, transcript.Place{Kind: "key", Agent: row.Agent, Session: row.ID})
		}
	}
	return kept
}

// inherits reports whether a session descends from one of another owner that goes as a
// whole.
func (l *look) inherits(row session.Info) bool {
	return slices.ContainsFunc(row.Descent, func(base transcript.Link) bool {
		i := slices.Index(l.plan.Sessions, linked(base))
		return i >= 0 && i < len(l.plan.Owners) && l.plan.Owners[i] != row.Owner
	})
}

// askBases asks for a copied entry in the nearest base that exists, and in the forks of
// those that were deleted.
func (l *look) askBases(row session.Info, id string) {
	for _, base := range slices.Backward(row.Descent) {
		l.ask(linked(base), id)
		if _, here := l.rows[linked(base)]; here {
			return
		}
	}
}

// rereads is how often a session is read again because another erase has replaced it.
const rereads = 10

// unlessGone calls f, which reads a session, again if the session was replaced. It
// reports false if the session does not exist and therefore holds no words.
func unlessGone(f func() error) (here bool, err error) {
	for range rereads {
		if err = f(); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if !errors.Is(err, session.ErrReplaced) {
			break
		}
	}
	return true, err
}
