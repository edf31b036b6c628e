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
// passes IDs between sessions related by descent until none gets new ones.
type look struct {
	st    *session.Store
	plan  *Plan
	rows  map[session.Ref]session.Info // all sessions
	fresh []session.Info               // sessions to look at
	whole map[session.Ref]bool         // sessions to erase as a whole
	forks map[session.Ref][]fork       // session -> fresh sessions that descend from it and stay

	asked map[session.Ref]map[string]bool // entries to erase; the sessions may be deleted
	queue []session.Ref                   // to visit
	due   map[session.Ref]bool            // the sessions in queue
	found map[session.Ref]*eraser         // erasers of sessions that were visited and stay
	here  map[string]bool                 // entries that some session holds
	lost  bool                            // a listed session was deleted: it may have a fork since; set by visit
}

// A fork descends from another session, directly or not.
type fork struct {
	session.Ref
	entry string // the last entry of the other session that the fork can hold
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

// find returns an eraser for each session with words to erase. It also returns one for
// each session of the plan, even if no words are left there. It continues after an
// error.
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

// ask adds entries to erase in a session.
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

// late reports whether a fork was made from a session of the plan during its deletion.
// All copied lines of such a fork go.
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

// visit finds the entries to erase in a session. It asks for them in related sessions,
// which may hold copies, or summaries that have read them.
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
		l.lost = l.lost || row.ID != ""
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
		case p.line > row.Base.Lines || id == ref.ID: // not a copy
		case gone[id]:
			l.askBases(row, id)
		case late:
			l.ask(ref, id)
		}
	}
	return nil
}

// kept returns the places that an eraser keeps. It includes idempotency keys only if
// the session has them from another owner.
func (l *look) kept(x *eraser) []transcript.Place {
	if l.inherits(l.rows[x.ref]) {
		return x.kept
	}
	return slices.DeleteFunc(slices.Clone(x.kept), func(p transcript.Place) bool { return p.Kind == idemKey })
}

// keys returns the places of keys that forks have taken over from another owner. It
// leaves out forks that will be deleted: forks in the trash with words to erase.
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

// inherits reports whether a session descends from another owner's session that goes as
// a whole.
func (l *look) inherits(row session.Info) bool {
	return slices.ContainsFunc(row.Descent, func(base transcript.Link) bool {
		i := slices.Index(l.plan.Sessions, linked(base))
		return i >= 0 && i < len(l.plan.Owners) && l.plan.Owners[i] != row.Owner
	})
}

// askBases asks for a copied entry in the nearest base that exists. It also asks in
// nearer bases that were deleted, for their other forks.
func (l *look) askBases(row session.Info, id string) {
	for _, base := range slices.Backward(row.Descent) {
		l.ask(linked(base), id)
		if _, here := l.rows[linked(base)]; here {
			return
		}
	}
}

// rereads is the number of attempts to read a session that other erases replace.
const rereads = 10

// unlessGone calls f, which reads a session, and calls it again if the session was
// replaced. It returns false if the session does not exist and therefore holds no
// words.
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
