package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// PlanErase finds every place that holds something of an [Erasure], in the store and
// with the Erasers, and changes nothing. It reads the transcripts of the sessions, of
// those related to them by forks, and of those that began with their values; with
// Match alone, and for entries of a session that was deleted, it reads the whole store.
// A session that does not exist gives an error that matches [fs.ErrNotExist], unless
// other sessions have the entries that are selected of it.
func (st *Store) PlanErase(ctx context.Context, what Erasure, also ...transcript.Eraser) (ErasePlan, error) {
	p, err := st.planErase(ctx, what, also)
	if err != nil {
		return ErasePlan{}, fmt.Errorf("session: plan an erase: %w", err)
	}
	return p, nil
}

func (st *Store) planErase(ctx context.Context, what Erasure, also []transcript.Eraser) (p ErasePlan, err error) {
	if what.Owner != "" && st.owner != "" && what.Owner != st.owner {
		return p, errNotHere
	}
	if what.Owner == "" && len(what.Sessions) == 0 && len(what.Entries) == 0 && what.Match == nil {
		return p, errors.New("the erasure names nothing: nothing was erased; set one of its fields")
	}
	if err := checkNames(what.Owner, nil); err != nil {
		return p, err
	}
	p = ErasePlan{ID: newID(), At: st.opts.Now().UTC(), subject: &transcript.Subject{Owner: what.Owner, Match: what.Match}}
	if what.Match != nil {
		p.subject.Owner = cmp.Or(what.Owner, st.owner)
	}
	rows, err := st.allRows(ctx)
	if err != nil {
		return p, err
	}
	named, err := what.sessions(rows)
	if err != nil {
		return p, err
	}
	switch {
	case what.Match == nil:
		p.Sessions = named
	case what.Owner != "" || len(what.Sessions) > 0:
		p.among = setOf(named)
	}
	for _, ref := range p.Sessions {
		p.Places = append(p.Places, st.wholeOf(ctx, ref)...)
	}
	p.chosen = what.Entries
	lost, err := st.planRows(ctx, &p, rows)
	if err != nil {
		return p, err
	}
	if len(lost) > 0 {
		s := lost[0]
		return p, fmt.Errorf("session %s/%s, and its entries in any other session: %w", s.Session.Agent, s.Session.ID, fs.ErrNotExist)
	}
	for _, other := range also {
		places, err := other.PlanErase(ctx, p.beside())
		if err != nil {
			return p, err
		}
		p.Places = append(p.Places, places...)
	}
	return p, nil
}

// planRows adds what goes from sessions that do not go as a whole to a plan. It returns
// the selections that no session has anything of. Sessions that it reads may be deleted
// or replaced meanwhile; then it begins again.
func (st *Store) planRows(ctx context.Context, p *ErasePlan, rows []*driver.Row) (lost []Selection, err error) {
	before := *p
	for range loadTries {
		if lost, err = st.planOnce(ctx, p, rows); !isGone(err) {
			break
		}
		*p = before
		if now, listErr := st.allRows(ctx); listErr == nil {
			rows = now
		}
	}
	return lost, err
}

func (st *Store) planOnce(ctx context.Context, p *ErasePlan, rows []*driver.Row) (lost []Selection, err error) {
	sp := spreading{st: st, rows: rows, ids: map[Ref]map[string]bool{}}
	if lost, err = sp.all(ctx, p); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if slices.Contains(p.Sessions, row.Ref()) {
			continue
		}
		if err := st.planEntries(ctx, p, row, sp.ids[row.Ref()]); err != nil {
			return nil, st.wrap("erase", row.Ref(), err)
		}
	}
	return lost, nil
}

// since returns what a plan selects in sessions that are not done: something may have
// been appended, and forks made, since it was made. A plan that was read back from JSON
// does not say.
func (st *Store) since(ctx context.Context, p *ErasePlan, done map[Ref]bool) (now ErasePlan, err error) {
	if p.subject == nil {
		return now, nil
	}
	rows, err := st.allRows(ctx)
	if err != nil {
		return now, err
	}
	now = ErasePlan{Sessions: p.Sessions, subject: p.subject, among: p.among, chosen: p.chosen}
	_, err = st.planRows(ctx, &now, rows)
	now.Entries = slices.DeleteFunc(now.Entries, func(s Selection) bool { return done[s.Session] })
	return now, err
}

// sessions returns the sessions that an erasure names, and those of its owner.
func (what *Erasure) sessions(rows []*driver.Row) ([]Ref, error) {
	named := slices.Clone(what.Sessions)
	for _, ref := range named {
		if !slices.ContainsFunc(rows, func(r *driver.Row) bool { return r.Ref() == ref }) {
			return nil, fmt.Errorf("session %s/%s: %w", ref.Agent, ref.ID, fs.ErrNotExist)
		}
	}
	for _, row := range rows {
		if what.Owner != "" && row.Owner == what.Owner && !slices.Contains(named, row.Ref()) {
			named = append(named, row.Ref())
		}
	}
	return named, nil
}

// planEntries adds what goes from one session to a plan.
func (st *Store) planEntries(ctx context.Context, p *ErasePlan, row *driver.Row, ids map[string]bool) error {
	x := st.eraser(row.Ref(), ids, p)
	places, err := x.find(st.recordsOf(ctx, x.ref))
	if err != nil || len(places) == 0 {
		return err
	}
	p.Entries = append(p.Entries, Selection{Session: x.ref, Entries: slices.Sorted(maps.Keys(x.gone))})
	p.Places, p.Kept = append(p.Places, places...), append(p.Kept, x.kept...)
	if row.Archived {
		p.Archived = append(p.Archived, x.ref)
		p.Places = append(p.Places, x.place("archive", ""))
	}
	return nil
}

// wholeOf returns the places that a whole session is in.
func (st *Store) wholeOf(ctx context.Context, ref Ref) (places []transcript.Place) {
	row, _ := st.drv.Get(ctx, ref) // one that cannot be read goes all the same
	kind := "transcript"
	if row.Archived {
		kind = "archive"
	}
	places = append(places, transcript.Place{Kind: kind, Agent: ref.Agent, Session: ref.ID})
	named := map[string]bool{}
	if st.sweeps() {
		for rec, err := range st.sift(ctx, ref)(func(_ driver.Cursor, lines []byte) bool { return bytes.Contains(lines, []byte(`"sha256"`)) }) {
			if err == nil {
				addBlobs(named, rec.Entry)
			}
		}
	}
	if len(named) > 0 {
		places = append(places, transcript.Place{Kind: "blob", Agent: ref.Agent, Session: ref.ID, Count: len(named)})
	}
	return places
}
