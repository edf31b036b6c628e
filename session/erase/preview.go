package erase

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Preview finds every place that holds a part of an [Erasure], in the store and with
// the Erasers, and changes nothing. It reads the transcripts of the sessions, and of
// sessions related to them by forks. With only a Match it reads the whole store. A
// session that does not exist gives an error that matches [fs.ErrNotExist], unless its
// forks hold the entries selected of it.
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
		return p, &session.InputError{Reason: "the erasure selects nothing: nothing was erased; set one of its fields"}
	case !utf8.ValidString(what.Owner):
		return p, &session.InputError{Member: "owner", Reason: fmt.Sprintf("%q is not valid UTF-8", what.Owner)}
	}
	p = Plan{ID: newID(), At: time.Now().UTC(), subject: &transcript.Subject{Owner: what.Owner, Match: what.Match}}
	if what.Match != nil {
		p.subject.Owner = cmp.Or(what.Owner, st.Owner())
	}
	rows, err := all(ctx, st)
	if err != nil {
		return p, err
	}
	named, chosen := setOf(what.Sessions), map[session.Ref]bool{}
	for _, row := range rows {
		if !named[row.Ref] && (what.Owner == "" || row.Owner != what.Owner) {
			continue
		}
		if chosen[row.Ref] = true; what.Match == nil {
			p.Sessions, p.Owners = append(p.Sessions, row.Ref), append(p.Owners, row.Owner)
			p.Places = append(p.Places, wholeOf(ctx, st, row)...)
		}
	}
	for ref := range named {
		if !chosen[ref] {
			return p, about(ref, fs.ErrNotExist)
		}
	}
	if what.Match != nil && (what.Owner != "" || len(named) > 0) {
		p.among = chosen
	}
	l := newLook(st, &p, rows, nil)
	found, err := l.find(ctx, what.Entries)
	if err != nil {
		return p, err
	}
	for _, s := range what.Entries {
		_, here := l.rows[s.Session]
		if !here && !slices.ContainsFunc(s.Entries, func(id string) bool { return l.here[id] }) {
			return p, about(s.Session, fmt.Errorf("neither it nor its entries in other sessions exist: %w", fs.ErrNotExist))
		}
	}
	p.Kept = l.keys(found)
	for _, x := range found {
		p.Entries = append(p.Entries, Selection{Session: x.ref, Entries: slices.Sorted(maps.Keys(x.gone))})
		p.Places, p.Kept = append(p.Places, x.places...), append(p.Kept, l.kept(x)...)
		if l.rows[x.ref].State == session.Archived {
			p.Archived = append(p.Archived, x.ref)
			p.Places = append(p.Places, x.place("archive", ""))
		}
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
var errForeign = fmt.Errorf("no such sessions in the scope: %w", fs.ErrNotExist)

// wholeOf returns the places that hold parts of a whole session. A session that cannot
// be read goes all the same.
func wholeOf(ctx context.Context, st *session.Store, row session.Info) (places []transcript.Place) {
	place := transcript.Place{Kind: "transcript", Agent: row.Agent, Session: row.ID}
	if row.State == session.Archived || row.State == session.Trashed {
		place.Kind = "archive"
	}
	places = append(places, place)
	named := map[string]bool{}
	if s, err := get(ctx, st, row.Ref); err == nil {
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
