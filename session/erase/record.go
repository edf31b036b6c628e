package erase

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// agent is the agent of unfinished plans. Each plan is a session with the ID of the
// plan. Its custom lines add up to the plan. A running erase holds the turn lock.
const agent = "_erase"

// name is the name of the custom lines.
const name = "erase"

// A run carries out a plan.
type run struct {
	st      *session.Store
	plan    *Plan
	stored  *session.Session // holds the plan until it is done
	receipt Receipt
}

// locked calls do under the lock of the stored plan with an ID.
func (r *run) locked(ctx context.Context, id string, do func() error) (err error) {
	if r.stored, err = r.st.Get(ctx, session.Ref{Agent: agent, ID: id}); err != nil {
		return err
	}
	unlock, err := r.stored.LockTurn(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the lock ends with the process at the latest
	return do()
}

// store stores the lists of a plan, with a line for each selection of entries. When it
// returns, they are on stable storage.
func (r *run) store(ctx context.Context, p Plan) error {
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
	if _, err := r.stored.Append(ctx, items...); err != nil {
		return err
	}
	return r.stored.Flush(ctx)
}

// read reads the stored plan.
func (r *run) read(ctx context.Context) error {
	p := new(Plan)
	for b, err := range transcript.Batches(r.stored.Scan(ctx, session.ScanOptions{})) {
		if err != nil {
			return err
		}
		for _, e := range b.Entries {
			c, ok := e.Body.(transcript.Custom)
			if !ok || c.Name != name || !b.Complete {
				continue
			}
			var part Plan
			if err := json.Unmarshal(c.Data, &part); err != nil {
				return fmt.Errorf("the plan cannot be read: make a new plan, then delete this session: %w", err)
			}
			p.Sessions, p.Owners = append(p.Sessions, part.Sessions...), append(p.Owners, part.Owners...)
			p.Archived, p.Entries = append(p.Archived, part.Archived...), append(p.Entries, part.Entries...)
		}
	}
	r.plan = p
	return nil
}
