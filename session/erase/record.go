package erase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

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
	st     *session.Store
	s      *session.Session
	unlock func() error
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
	if err = r.add(ctx, *p); err != nil {
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
	unlock, err := s.LockTurn(ctx, false)
	if err != nil {
		return nil, err
	}
	return &record{st, s, unlock}, nil
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

// add stores the lists of a plan, with a line for each session, and returns when they are
// on stable storage.
func (r *record) add(ctx context.Context, p Plan) error {
	parts := []Plan{{ID: p.ID, At: p.At, Sessions: p.Sessions, Owners: p.Owners, Archived: p.Archived}}
	for _, s := range p.Entries {
		parts = append(parts, Plan{ID: p.ID, At: p.At, Entries: []Selection{s}})
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
	for b, err := range transcript.Batches(r.s.Scan(ctx, session.ScanOptions{})) {
		if err != nil {
			return nil, err
		}
		for _, e := range b.Entries {
			c, ok := e.Body.(transcript.Custom)
			if !ok || c.Name != name || !b.Complete {
				continue
			}
			var part Plan
			if err := json.Unmarshal(c.Data, &part); err != nil {
				return nil, fmt.Errorf("the plan cannot be read: plan it again, then delete this session: %w", err)
			}
			p.ID, p.At = cmp.Or(p.ID, part.ID), part.At
			p.Sessions, p.Owners = append(p.Sessions, part.Sessions...), append(p.Owners, part.Owners...)
			p.Archived, p.Entries = append(p.Archived, part.Archived...), append(p.Entries, part.Entries...)
		}
	}
	return p, nil
}
