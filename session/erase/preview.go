package erase

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Preview finds every place that holds something of an [Erasure], in the store and
// with the Erasers, and changes nothing. It reads the transcripts of the sessions, of
// those related to them by forks, and of those that began with their values; with
// Match alone, and for entries of a session that was deleted, it reads the whole store.
// A session that does not exist gives an error that matches [fs.ErrNotExist], unless
// other sessions have the entries that are selected of it.
func Preview(ctx context.Context, st *session.Store, what Erasure, also ...transcript.Eraser) (Plan, error) {
	p, err := preview(ctx, st, what, also)
	if err != nil {
		return Plan{}, fmt.Errorf("erase: plan: %w", err)
	}
	return p, nil
}

func preview(ctx context.Context, st *session.Store, what Erasure, also []transcript.Eraser) (p Plan, err error) {
	switch scope := st.Owner(); {
	case what.Owner != "" && scope != "" && what.Owner != scope:
		return p, errForeign
	case what.Owner == "" && len(what.Sessions) == 0 && len(what.Entries) == 0 && what.Match == nil:
		return p, errors.New("the erasure names nothing: nothing was erased; set one of its fields")
	case !utf8.ValidString(what.Owner):
		return p, fmt.Errorf("the owner %q is not valid UTF-8", what.Owner)
	}
	p = Plan{ID: newID(), At: time.Now().UTC(), subject: &transcript.Subject{Owner: what.Owner, Match: what.Match}}
	if what.Match != nil {
		p.subject.Owner = cmp.Or(what.Owner, st.Owner())
	}
	rows, err := all(ctx, st)
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
	for _, row := range rows {
		if slices.Contains(p.Sessions, row.Ref) {
			p.Places = append(p.Places, wholeOf(ctx, st, row)...)
		}
	}
	p.chosen = what.Entries
	lost, err := p.look(ctx, st, rows)
	if err != nil {
		return p, err
	}
	if len(lost) > 0 {
		return p, about(lost[0].Session, fmt.Errorf("it and its entries in other sessions: %w", fs.ErrNotExist))
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

// errForeign hides the sessions of other owners.
var errForeign = fmt.Errorf("there are no such sessions in the scope: %w", fs.ErrNotExist)

// lookTries is how often look starts again because sessions are deleted.
const lookTries = 10

// look adds the entries to erase from remaining sessions to a plan. It returns the
// selections without a match in any session. It begins again if a session is deleted or
// replaced during it.
func (p *Plan) look(ctx context.Context, st *session.Store, rows []session.Info) (lost []Selection, err error) {
	before := *p
	for range lookTries {
		if lost, err = p.lookOnce(ctx, st, rows); !errors.Is(err, session.ErrReplaced) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
		*p = before
		if now, listErr := all(ctx, st); listErr == nil {
			rows = now
		}
	}
	return lost, err
}

func (p *Plan) lookOnce(ctx context.Context, st *session.Store, rows []session.Info) (lost []Selection, err error) {
	sp := spreading{st: st, rows: rows, ids: map[session.Ref]map[string]bool{}}
	if lost, err = sp.all(ctx, p); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if slices.Contains(p.Sessions, row.Ref) {
			continue
		}
		if err := p.entries(ctx, st, row, sp.ids[row.Ref]); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// sessions returns the sessions that an erasure names, and its owner's.
func (what *Erasure) sessions(rows []session.Info) ([]session.Ref, error) {
	named := slices.Clone(what.Sessions)
	for _, ref := range named {
		if !slices.ContainsFunc(rows, func(r session.Info) bool { return r.Ref == ref }) {
			return nil, about(ref, fs.ErrNotExist)
		}
	}
	for _, row := range rows {
		if what.Owner != "" && row.Owner == what.Owner && !slices.Contains(named, row.Ref) {
			named = append(named, row.Ref)
		}
	}
	return named, nil
}

func (p *Plan) entries(ctx context.Context, st *session.Store, row session.Info, ids map[string]bool) error {
	x := p.eraser(row.Ref, ids)
	places, err := x.find(scan(ctx, st, x.ref))
	if err != nil || len(places) == 0 {
		return err
	}
	p.Entries = append(p.Entries, Selection{Session: x.ref, Entries: slices.Sorted(maps.Keys(x.gone))})
	p.Places, p.Kept = append(p.Places, places...), append(p.Kept, x.kept...)
	if row.State == session.Archived {
		p.Archived = append(p.Archived, x.ref)
		p.Places = append(p.Places, x.place("archive", ""))
	}
	return nil
}

// wholeOf returns the places that a whole session is in. One that cannot be read goes
// all the same.
func wholeOf(ctx context.Context, st *session.Store, row session.Info) (places []transcript.Place) {
	place := transcript.Place{Kind: "transcript", Agent: row.Agent, Session: row.ID}
	if row.State == session.Archived {
		place.Kind = "archive"
	}
	places = append(places, place)
	named := map[string]bool{}
	if s, err := st.Get(ctx, row.Ref); err == nil {
		names := session.ScanOptions{Backward: true, Keep: func(lines []byte) bool { return bytes.Contains(lines, []byte(`"sha256"`)) }}
		for rec, err := range s.Scan(ctx, names) {
			if err == nil {
				addBlobs(named, rec.Entry)
			}
		}
	}
	if len(named) > 0 {
		place.Kind, place.Count = "blob", len(named)
		places = append(places, place)
	}
	return places
}
