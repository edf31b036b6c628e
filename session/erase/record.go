package erase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// agent has a session for each unfinished plan, with the ID of the plan. The plan is in
// its custom lines, which add up. A running erase holds the turn lock.
const agent = "_erase"

// name is the name of the custom lines.
const name = "erase"

// A record keeps the plan of an erase until it is done.
type record struct {
	st      *session.Store
	s       *session.Session
	unlock  func() error
	created time.Time
}

// begin stores a plan. An earlier try may have done so already.
func begin(ctx context.Context, st *session.Store, p *Plan) (*record, error) {
	_, err := st.Create(ctx, session.Key{Agent: agent}, &session.CreateOptions{ID: p.ID, Title: "an erase"})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	r, err := open(ctx, st, p.ID)
	if err != nil {
		return nil, err
	}
	if err = r.add(ctx, p); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// open locks the record of a plan.
func open(ctx context.Context, st *session.Store, id string) (*record, error) {
	s, err := st.Get(ctx, session.Ref{Agent: agent, ID: id})
	if err != nil {
		return nil, err
	}
	r := &record{st: st, s: s}
	if r.unlock, err = s.LockTurn(ctx, false); err != nil {
		return nil, err
	}
	err = s.View(ctx, func(v *session.View) error {
		info, err := v.Info()
		r.created = info.CreatedAt
		return err
	})
	if err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// release lets another process carry out the plan.
func (r *record) release() { _ = r.unlock() } // ends with the process at the latest

// remove removes the plan, which is done.
func (r *record) remove(ctx context.Context) error {
	err := r.st.Delete(ctx, r.s.Ref())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lineIDs is how many IDs of entries a line has at most.
const lineIDs = 10_000

// add stores the lists of a plan, and returns when they are on stable storage.
func (r *record) add(ctx context.Context, p *Plan) error {
	parts := []Plan{{ID: p.ID, At: p.At, Sessions: p.Sessions, Archived: p.Archived}}
	n := lineIDs
	for _, s := range p.Entries {
		for ids := range slices.Chunk(s.Entries, lineIDs) {
			if n += len(ids); n > lineIDs {
				parts, n = append(parts, Plan{ID: p.ID, At: p.At}), len(ids)
			}
			last := &parts[len(parts)-1]
			last.Entries = append(last.Entries, Selection{s.Session, ids})
		}
	}
	var items []transcript.Item
	for _, part := range parts {
		data, err := json.Marshal(part)
		if err != nil {
			return err
		}
		items = append(items, transcript.Custom{Name: name, Data: data})
	}
	if _, err := r.s.Append(ctx, items...); err != nil {
		return err
	}
	return r.s.Flush(ctx)
}

// read returns the plan.
func (r *record) read(ctx context.Context) (*Plan, error) {
	p := new(Plan)
	at := map[session.Ref]int{} // place in p.Entries
	for e, err := range r.s.Entries(ctx, "") {
		if err != nil {
			return nil, err
		}
		c, ok := e.Body.(transcript.Custom)
		if !ok || c.Name != name {
			continue
		}
		var part Plan
		if err := json.Unmarshal(c.Data, &part); err != nil {
			return nil, fmt.Errorf("the plan cannot be read: plan it again, then delete this session: %w", err)
		}
		p.ID, p.At = cmp.Or(p.ID, part.ID), part.At
		p.Sessions, p.Archived = append(p.Sessions, part.Sessions...), append(p.Archived, part.Archived...)
		for _, s := range part.Entries {
			i, ok := at[s.Session]
			if !ok {
				i = len(p.Entries)
				at[s.Session], p.Entries = i, append(p.Entries, Selection{Session: s.Session})
			}
			p.Entries[i].Entries = append(p.Entries[i].Entries, s.Entries...)
		}
	}
	return p, nil
}
