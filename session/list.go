package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// list describes the sessions of an agent, at least the newest ones.
func (st *Store) list(ctx context.Context, agent string, limit int) (infos []Info, err error) {
	if r, ok := st.drv.(driver.Recent); ok && limit > 0 {
		rows, err := r.Recent(ctx, agent, limit)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			info := infoOf(row)
			cur, err := st.drv.Current(ctx, agent, row.Key)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			info.Current = err == nil && cur.ID == row.ID
			infos = append(infos, info)
		}
		return infos, nil
	}
	rows, err := st.drv.List(ctx, agent)
	if err != nil {
		return nil, err
	}
	current := map[string]driver.Row{}
	for _, row := range rows {
		if cur, ok := current[row.Key]; !ok || row.Newer(cur) {
			current[row.Key] = row
		}
	}
	for _, row := range rows {
		info := infoOf(row)
		info.Current = current[row.Key].ID == row.ID
		infos = append(infos, info)
	}
	return infos, nil
}
