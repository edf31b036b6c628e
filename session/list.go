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
// the index and no transcript.
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
		rows, err := st.drv.List(ctx, agent)
		if err != nil {
			return nil, fmt.Errorf("session: list: %w", err)
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
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.ID, a.ID), strings.Compare(a.Agent, b.Agent))
	})
	if opts.Limit > 0 && len(infos) > opts.Limit {
		infos = infos[:opts.Limit]
	}
	return infos, nil
}
