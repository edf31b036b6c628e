package erase

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A spreading finds the entries to erase in each session: the selected ones,
// and copies of them in other sessions.
type spreading struct {
	st     *session.Store
	rows   []session.Info
	whole  map[session.Ref]bool // sessions that go as a whole
	ids    map[session.Ref]map[string]bool
	row    map[session.Ref]session.Info
	joined map[session.Ref]session.Ref // session -> one that represents all that may share lines
}

// all fills ids, and adds matching entries with copies to the chosen entries of a
// plan. It returns the selections without a match in any session.
func (sp *spreading) all(ctx context.Context, p *Plan) (lost []Selection, err error) {
	sp.whole = setOf(p.Sessions)
	sp.relate()
	chosen, lost, err := sp.found(ctx, p.chosen)
	if err != nil {
		return nil, err
	}
	if p.match() != nil && len(sp.joined) > 0 { // summaries of forks may cover matches
		related := map[session.Ref]int{}
		for _, row := range sp.rows {
			related[sp.root(row.Ref)]++
		}
		for _, row := range sp.rows {
			x := p.eraser(row.Ref, nil)
			if x.match == nil || row.Base.Session == "" && related[sp.root(x.ref)] < 2 {
				continue
			}
			if _, err := x.find(scan(ctx, sp.st, x.ref)); err != nil {
				return nil, err
			}
			if len(x.gone) > 0 {
				chosen = append(slices.Clip(chosen), Selection{x.ref, slices.Collect(maps.Keys(x.gone))})
			}
		}
	}
	p.chosen = chosen
	for _, ref := range p.Sessions {
		chosen = append(slices.Clip(chosen), Selection{Session: ref}) // all entries
	}
	if err := sp.adopt(ctx, chosen); err != nil {
		return nil, err
	}
	for _, s := range chosen {
		if err := sp.from(ctx, s.Session, s.Entries); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// entries yields the entries of a session.
func (sp *spreading) entries(ctx context.Context, ref session.Ref) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for rec, err := range scan(ctx, sp.st, ref) {
			if (err != nil || rec.HasEntry()) && !yield(rec.Entry, err) {
				return
			}
		}
	}
}

func (sp *spreading) ask(ref session.Ref, id string) {
	if sp.ids[ref] == nil {
		sp.ids[ref] = map[string]bool{}
	}
	sp.ids[ref][id] = true
}

// relate joins forks and their bases, and forks of the same base.
func (sp *spreading) relate() {
	sp.row, sp.joined = map[session.Ref]session.Info{}, map[session.Ref]session.Ref{}
	for _, row := range sp.rows {
		sp.row[row.Ref] = row
		if row.Base.Session != "" {
			sp.joined[sp.root(row.Ref)] = sp.root(linked(row.Base))
		}
	}
}

func (sp *spreading) root(ref session.Ref) session.Ref {
	for up, ok := sp.joined[ref]; ok && up != ref; up, ok = sp.joined[ref] {
		ref = up
	}
	return ref
}

// line returns the bases of a session, the nearest first, and whether the last one
// was deleted, so that its own base is unknown.
func (sp *spreading) line(ref session.Ref) (bases []session.Ref, broken bool) {
	for sp.row[ref].Base.Session != "" {
		if ref = linked(sp.row[ref].Base); slices.Contains(bases, ref) {
			return bases, false // no fork has made that
		}
		bases = append(bases, ref)
	}
	_, here := sp.row[ref]
	return bases, !here && len(bases) > 0
}

// found replaces selections of deleted sessions by selections of the sessions that
// hold the entries, anywhere in the store. A fork of a deleted session may also begin
// with a summary of entries that it lacks. lost holds the selections whose entries no
// session holds.
func (sp *spreading) found(ctx context.Context, chosen []Selection) (found, lost []Selection, err error) {
	var gone []Selection
	for _, s := range chosen {
		if _, here := sp.row[s.Session]; here {
			found = append(found, s)
		} else {
			gone = append(gone, s)
		}
	}
	if len(gone) == 0 {
		return found, nil, nil
	}
	somewhere := map[session.Ref]bool{}
	for _, row := range sp.rows {
		names, summarized, err := sp.names(ctx, row.Ref)
		if err != nil {
			return nil, nil, err
		}
		bases, _ := sp.line(row.Ref)
		for _, s := range gone {
			named := slices.ContainsFunc(s.Entries, func(id string) bool { return names[id] })
			if named || summarized && slices.Contains(bases, s.Session) {
				found = append(found, Selection{row.Ref, s.Entries})
				somewhere[s.Session] = true
			}
		}
	}
	lost = slices.DeleteFunc(gone, func(s Selection) bool { return somewhere[s.Session] })
	return found, lost, nil
}

// names returns the IDs that the lines of a session name, and whether it begins with a
// summary of lines that it lacks.
func (sp *spreading) names(ctx context.Context, ref session.Ref) (names map[string]bool, summarized bool, err error) {
	names = map[string]bool{}
	here, covered := map[string]bool{}, map[string]bool{}
	for e, err := range sp.entries(ctx, ref) {
		if err != nil {
			return nil, false, err
		}
		here[e.ID] = true
		for _, id := range named(e) {
			names[id] = true
		}
		if c, ok := e.Body.(transcript.Compaction); ok {
			covered[c.CoversTo] = true
		}
	}
	for id := range covered {
		summarized = summarized || !here[id]
	}
	return names, summarized, nil
}

// adopt joins forks of deleted bases with the sessions whose entries they name.
func (sp *spreading) adopt(ctx context.Context, chosen []Selection) error {
	var orphans []session.Ref
	for _, row := range sp.rows {
		if _, here := sp.row[linked(row.Base)]; !here && row.Base.Session != "" {
			orphans = append(orphans, row.Ref)
		}
	}
	from := map[session.Ref]bool{}
	for _, s := range chosen {
		from[sp.root(s.Session)] = true
	}
	if len(orphans) == 0 || len(from) == 0 {
		return nil
	}
	has := map[string]session.Ref{}
	for _, row := range sp.rows {
		if !from[sp.root(row.Ref)] {
			continue
		}
		for e, err := range sp.entries(ctx, row.Ref) {
			if err != nil {
				return err
			}
			has[e.ID] = row.Ref
		}
	}
	for _, ref := range orphans {
		for e, err := range sp.entries(ctx, ref) {
			if err != nil {
				return err
			}
			for _, id := range named(e) {
				if kin, ok := has[id]; ok {
					sp.joined[sp.root(ref)] = sp.root(kin)
				}
			}
		}
	}
	return nil
}

// named returns the IDs of an entry, and of the entries that it repeats.
func named(e transcript.Entry) []string {
	ids := []string{e.ID}
	switch b := e.Body.(type) {
	case transcript.Header:
		ids = append(ids, b.Base.Entry)
	case transcript.Compaction:
		ids = append(ids, b.CoversTo)
		for _, item := range append(carriedItems(b), b.Pins...) {
			ids = append(ids, item.Entry)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// from asks for entries of a session, in all sessions that may have copies of
// them. Nil is all of its entries: those go where they were copied from it, and
// not where it has copied them from.
func (sp *spreading) from(ctx context.Context, ref session.Ref, entries []string) error {
	for _, id := range entries {
		sp.ask(ref, id)
	}
	own, here := sp.row[ref]
	var others []session.Ref // those that may have lines of it
	for _, row := range sp.rows {
		if other := row.Ref; other != ref && !sp.whole[other] && sp.root(other) == sp.root(ref) {
			others = append(others, other)
		}
	}
	if !here || len(others) == 0 {
		return nil
	}
	at, n, lines := map[string]int{}, 0, 0 // batches
	copied, same := map[string]bool{}, newKin()
	var said []transcript.Entry
	for e, err := range sp.entries(ctx, ref) {
		if err != nil {
			return err
		}
		if e.Part <= 1 {
			n++
		}
		at[e.ID] = n
		copied[e.ID] = lines > 0 && lines <= own.Base.Lines
		lines++
		same.add(e)
		if _, ok := e.Body.(transcript.Value); ok {
			said = append(said, e)
		}
	}
	gone := setOf(entries)
	if same.spread(gone, nil); entries == nil {
		gone = setOf(slices.Collect(maps.Keys(at)))
		delete(gone, ref.ID)
	}
	for _, other := range others {
		end, descends := sp.taken(other, ref, at)
		for id := range gone {
			if descends && at[id] <= end || entries != nil && copied[id] {
				sp.ask(other, id)
			}
		}
	}
	said = slices.DeleteFunc(said, func(e transcript.Entry) bool { return !gone[e.ID] && entries != nil })
	return sp.inherited(ctx, said, others)
}

// taken reports whether a session has copies of lines of another one, and up to
// which batch.
func (sp *spreading) taken(ref, base session.Ref, at map[string]int) (end int, descends bool) {
	bases, broken := sp.line(ref)
	for i, up := range bases {
		if up != base {
			continue
		}
		if i > 0 {
			ref = bases[i-1]
		}
		if end, ok := at[sp.row[ref].Base.Entry]; ok {
			return end, true
		}
		return math.MaxInt, true
	}
	theirs, _ := sp.line(base)
	return math.MaxInt, broken && !slices.Contains(theirs, bases[len(bases)-1])
}

// inherited asks for entries that the headers of forks hold.
func (sp *spreading) inherited(ctx context.Context, said []transcript.Entry, forks []session.Ref) error {
	for _, ref := range forks {
		for header, err := range sp.entries(ctx, ref) {
			if err != nil {
				return err
			}
			for _, held := range header.Standing() {
				if slices.ContainsFunc(said, func(e transcript.Entry) bool { return e.ID == held.ID }) {
					sp.ask(ref, held.ID)
				}
			}
			break
		}
	}
	return nil
}

func carriedItems(c transcript.Compaction) []transcript.Carried {
	return slices.Concat(c.Said, c.Errors, c.Files, c.IDs)
}
