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

// ListOptions of [Store.List] and [Store.Find]. A session is listed if it fits
// every field that is set.
//
// Nil options and empty fields do not filter: an empty Owner lists the sessions
// of every owner, those without one included. A program with several users must
// set a filter in every call and refuse a user without a name.
type ListOptions struct {
	Agent string `json:"agent,omitempty"` // of the session

	// Parts of the key, see [Key]. A session whose key is not one that
	// [ParseKey] reads fits none of them.
	Channel string `json:"channel,omitempty"`
	Account string `json:"account,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Thread  string `json:"thread,omitempty"`

	Owner string `json:"owner,omitempty"` // exactly
	Label string `json:"label,omitempty"` // one of the session's labels

	// Since and Until limit UpdatedAt: at or after Since, before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`

	// After is the [Info.Cursor] of the last session of the page before; empty
	// begins at the front. A session that nobody touches between two pages is on
	// exactly one of them. Find ignores it.
	After string `json:"after,omitempty"`
	// Limit is the size of a page; 0 means all. Find ignores it.
	Limit int `json:"limit,omitempty"`
}

// List describes sessions, the one with the newest message first. It reads the
// index, and only those transcripts that the index does not know as they are:
// those in use by other processes, and those of killed ones. Its cost is that of
// the page and of the rows that the filter skips. A malformed cursor gives an
// error that matches [ErrCursor].
func (st *Store) List(ctx context.Context, opts *ListOptions) ([]Info, error) {
	infos, err := st.list(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("session: list: %w", err)
	}
	return infos, nil
}

func (st *Store) list(ctx context.Context, opts *ListOptions) (infos []Info, err error) {
	if opts == nil {
		opts = new(ListOptions)
	}
	var after cursor
	if opts.After != "" {
		if after, err = parseCursor(opts.After); err != nil {
			return nil, err
		}
	}
	st.looks.Add(1)
	st.putRows(ctx, opts.Agent, true)
	agents := []string{opts.Agent}
	if opts.Agent == "" {
		if agents, err = st.drv.Agents(ctx); err != nil {
			return nil, err
		}
	}
	pages := make([]*pages, len(agents))
	for i, agent := range agents {
		if pages[i], err = st.pages(ctx, agent, after, opts); err != nil {
			return nil, err
		}
	}
	for opts.Limit <= 0 || len(infos) < opts.Limit {
		next := newest(pages)
		if next == nil {
			break
		}
		infos = append(infos, infoOf(next.rows[0]))
		if err := next.pop(ctx); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// newest returns the agent whose next row comes first; nil if there is no more.
// Equal places are in the order of the agents' names.
func newest(all []*pages) (first *pages) {
	for _, p := range all {
		if len(p.rows) > 0 && (first == nil || p.rows[0].Place().Compare(first.rows[0].Place()) < 0) {
			first = p
		}
	}
	return first
}

// pages are the rows of one agent that fit a filter, read a page at a time.
type pages struct {
	store *Store
	agent string
	opts  *ListOptions
	size  int          // of the next page; 0 means all
	after driver.Place // the end of the page before
	ended bool
	rows  []driver.Row
}

// A page begins small, as most agents add little to a list over all of them,
// and grows with what is asked for.
const (
	firstPage = 16
	lastPage  = 1024
)

func (st *Store) pages(ctx context.Context, agent string, after cursor, opts *ListOptions) (*pages, error) {
	p := &pages{store: st, agent: agent, opts: opts, after: after.Place}
	if opts.Limit > 0 {
		p.size = min(opts.Limit, firstPage)
		if opts.Agent != "" {
			p.size = min(opts.Limit, lastPage)
		}
	}
	if agent > after.agent && after.agent != "" {
		p.after.ID += "\x00" // a session with the same time and ID comes behind
	}
	// No row of a session that was updated at Until or later is behind its place.
	if until := (driver.Place{UpdatedAt: opts.Until}); !opts.Until.IsZero() && (after.agent == "" || until.Compare(p.after) > 0) {
		p.after = until
	}
	return p, p.read(ctx)
}

// read reads pages until one has a row that fits.
func (p *pages) read(ctx context.Context) error {
	for len(p.rows) == 0 && !p.ended {
		rows, err := p.store.drv.List(ctx, p.agent, p.after, p.size)
		if err != nil {
			return err
		}
		p.ended = p.size == 0 || len(rows) < p.size
		p.size = min(2*p.size, lastPage)
		for _, row := range rows {
			if p.after = row.Place(); row.UpdatedAt.Before(p.opts.Since) {
				p.ended = true
				break
			}
			if p.opts.fits(row) {
				p.rows = append(p.rows, row)
			}
		}
	}
	return nil
}

// pop drops the next row.
func (p *pages) pop(ctx context.Context) error {
	p.rows = p.rows[1:]
	return p.read(ctx)
}

// fits reports whether a row passes the filter.
func (o *ListOptions) fits(row driver.Row) bool {
	switch {
	case o.Agent != "" && row.Agent != o.Agent,
		o.Owner != "" && row.Owner != o.Owner,
		o.Label != "" && !slices.Contains(row.Labels, o.Label),
		!o.Since.IsZero() && row.UpdatedAt.Before(o.Since),
		!o.Until.IsZero() && !row.UpdatedAt.Before(o.Until):
		return false
	case cmp.Or(o.Channel, o.Account, o.Kind, o.Peer, o.Thread) == "":
		return true
	}
	k, err := ParseKey(row.Key)
	fits := func(want, got string) bool { return want == "" || want == got }
	return err == nil && fits(o.Channel, k.Channel) && fits(o.Account, k.Account) && fits(o.Kind, k.Kind) &&
		fits(o.Peer, k.Peer) && fits(o.Thread, k.Thread)
}

// AmbiguousError reports that a query of [Store.Find] fits several sessions.
type AmbiguousError struct {
	Query   string `json:"query"`
	Matches []Info `json:"matches"`
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
//
// Find looks only at the sessions that [Store.List] returns for opts, without
// After and Limit: no other session is found, makes a query ambiguous, or is
// named in an error. Nil options are those of List.
func (st *Store) Find(ctx context.Context, query string, opts *ListOptions) (Info, error) {
	var all ListOptions
	if opts != nil {
		all = *opts
	}
	all.After, all.Limit = "", 0
	infos, err := st.list(ctx, &all)
	if err != nil {
		return Info{}, fmt.Errorf("session: find %q: %w", query, err)
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
