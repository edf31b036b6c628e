package session

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// Info describes a session.
type Info struct {
	Ref
	Key         string // printed form
	Current     bool   // whether it is the current session of its key
	Title       string
	TitleByHand bool
	Owner       string
	Labels      []string
	CreatedAt   time.Time
	UpdatedAt   time.Time // of the last message, compaction or rewind
	LastUserAt  time.Time // of the last user message; zero if there is none
	Messages    int       // user messages and answers, rewound ones included
	Turns       int       // of the conversation as it stands
	Tokens      int       // estimate of the history
	Size        int64     // of the transcript; bytes if it is a file
	TTL         time.Duration
	Pinned      bool
}

func infoOf(row driver.Row) Info {
	return Info{
		Ref: row.Ref(), Key: row.Key, Title: row.Title, TitleByHand: row.TitleByHand, Owner: row.Owner,
		Labels: slices.Clone(row.Labels), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, LastUserAt: row.LastUserAt,
		Messages: row.Messages, Turns: row.Turns, Tokens: row.TokenEstimate, Size: row.Size,
		TTL: time.Duration(row.TTL) * time.Second, Pinned: row.Pinned,
	}
}

// Info describes the session as this process saw it last. Current is not
// filled in: it belongs to the key, see [Store.List].
func (s *Session) Info() Info {
	var info Info
	// An error shows at the next call that returns one.
	_ = s.use("read", func(t *state) error {
		var err error
		if t.fresh {
			err = t.sync(context.Background())
		}
		info = infoOf(t.row)
		return err
	})
	return info
}

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

// AmbiguousError says that a query of [Store.Find] fits several sessions.
type AmbiguousError struct {
	Query   string
	Matches []Info
}

// Error returns one line with the IDs of the matches.
func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Matches))
	for i, m := range e.Matches {
		names[i] = m.ID
	}
	return fmt.Sprintf("session: %q fits %d sessions (%s): give more of the ID, the key or the title",
		e.Query, len(e.Matches), strings.Join(names, ", "))
}

// Find returns the session that a person means: the one whose ID or key is
// query, else the only one whose ID, key or title begins with it. A key stands
// for its current session. Titles match without regard to case. The error is
// an [*AmbiguousError] with the matches, or matches fs.ErrNotExist.
func (st *Store) Find(ctx context.Context, query string) (Info, error) {
	infos, err := st.List(ctx, nil)
	if err != nil {
		return Info{}, err
	}
	for _, fits := range []func(Info) bool{
		func(i Info) bool { return i.ID == query || i.Current && i.Key == query },
		func(i Info) bool {
			return strings.HasPrefix(i.ID, query) || i.Current && strings.HasPrefix(i.Key, query) || hasPrefixFold(i.Title, query)
		},
	} {
		var found []Info
		for _, info := range infos {
			if query != "" && fits(info) {
				found = append(found, info)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Info{}, &AmbiguousError{Query: query, Matches: found}
		}
	}
	return Info{}, fmt.Errorf("session: find %q: %w: list the sessions to see which there are", query, fs.ErrNotExist)
}

func hasPrefixFold(s, prefix string) bool {
	return strings.HasPrefix(strings.ToLower(s), strings.ToLower(prefix))
}
