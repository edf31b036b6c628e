package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/session/driver"
)

// ListOptions of [Store.List]. Nil and zero fields are the defaults.
type ListOptions struct {
	Agent string // only this agent's sessions; empty means all
	Limit int    // at most so many; 0 means all
}

// List describes the sessions, the one with the newest message first. It reads
// the index, and those transcripts alone that the index does not know as they
// are, after a kill for example.
func (st *Store) List(ctx context.Context, opts *ListOptions) ([]Info, error) {
	if opts == nil {
		opts = new(ListOptions)
	}
	agents := []string{opts.Agent}
	if opts.Agent == "" {
		var err error
		if agents, err = st.drv.Agents(ctx); err != nil {
			return nil, fmt.Errorf("session: list: %w", err)
		}
	}
	var infos []Info
	for _, agent := range agents {
		found, err := st.list(ctx, agent, opts.Limit)
		if err != nil {
			return nil, fmt.Errorf("session: list: %w", err)
		}
		infos = append(infos, found...)
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.ID, a.ID), strings.Compare(a.Agent, b.Agent))
	})
	if opts.Limit > 0 && len(infos) > opts.Limit {
		infos = infos[:opts.Limit]
	}
	return infos, nil
}

// list describes the newest sessions of an agent, all of them if limit is 0.
func (st *Store) list(ctx context.Context, agent string, limit int) (infos []Info, err error) {
	rows, err := st.drv.List(ctx, agent, driver.Place{}, limit)
	for _, row := range rows {
		info := infoOf(row)
		info.Current = row.Current
		infos = append(infos, info)
	}
	return infos, err
}
