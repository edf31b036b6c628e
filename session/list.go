package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// ListOptions of [Store.List]. A session is listed if it fits
// every field that is set.
//
// Nil options and empty fields do not filter, State excepted: an empty Owner lists
// the sessions of every owner and of none. A program with several users uses a
// [Store.Scope] for each of them.
type ListOptions struct {
	// Key holds the parts of the key to list; empty parts match all. An empty Agent
	// lists all agents except names that begin with '_', which hold the library's own
	// sessions. A session whose key [ParseKey] refuses matches no other part.
	Key
	// Current lists only the current sessions of keys. With a Key that [Store.Load]
	// accepts, List finds at most the session that Load would return: empty parts of
	// the Key match only empty parts, and an empty Owner only sessions without an
	// owner.
	Current bool `json:"current,omitempty"`

	// State selects sessions by state. The zero value is [Live]; [AnyState] lists
	// all of them but those in the trash, which [Trashed] and [EveryState] list.
	State State `json:"state,omitempty"`

	Owner string `json:"owner,omitempty"` // exactly
	Label string `json:"label,omitempty"` // one of the session's labels, exactly
	// Waits is the next step of unfinished work, or [rebuild.WaitAny]; a running turn counts.
	Waits rebuild.Wait `json:"waits,omitempty"`

	// Parent lists the sessions that this one has started, see [CreateOptions];
	// Base lists its forks.
	Parent Ref `json:"parent,omitzero"`
	Base   Ref `json:"base,omitzero"`

	// Since and Until limit UpdatedAt: at or after Since, before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`

	// After is the [Info].Cursor of the last session on the previous page; empty
	// begins at the front. A session that does not change between two pages is on
	// exactly one of them.
	After string `json:"after,omitempty"`
	// Limit is the size of a page; 0 means all.
	Limit int `json:"limit,omitempty"`
}

// List describes sessions, the one with the newest message first. It reads the
// index, and only those transcripts for which the index may be out of date:
// sessions in use by other processes, or by killed ones. Its cost depends on
// the page and the rows that the filter skips. A malformed cursor, an unknown state and an
// unknown step give an [InputError].
func (st *Store) List(ctx context.Context, opts *ListOptions) ([]Info, error) {
	now := sync.OnceValue(st.opts.Now)
	rows, err := st.listRows(ctx, opts, now)
	var infos []Info
	for _, row := range rows {
		infos = append(infos, infoOf(*row, now))
	}
	return infos, st.wrap("list", Ref{}, err)
}

// listRows returns the rows of the sessions that list describes.
func (st *Store) listRows(ctx context.Context, opts *ListOptions, now func() time.Time) (list []*driver.Row, err error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	opts, o.Owner = &o, cmp.Or(o.Owner, st.owner)
	switch {
	case !slices.Contains([]State{Live, Archived, Trashed, Expired, AnyState, EveryState}, opts.State):
		return nil, &InputError{Member: "state", Reason: fmt.Sprintf("there is no state %q", opts.State)}
	case !slices.Contains([]rebuild.Wait{"", rebuild.WaitApproval, rebuild.WaitTool, rebuild.WaitAnswer, rebuild.WaitAny}, opts.Waits):
		return nil, &InputError{Member: "waits", Reason: fmt.Sprintf("there is no step %q", opts.Waits)}
	}
	var after cursor
	if opts.After != "" {
		if after, err = parseCursor(opts.After); err != nil {
			return nil, err
		}
	}
	if st.owner != "" && o.Owner != st.owner {
		return nil, nil
	}
	if opts.Current && opts.check() == nil { // the key is complete
		row, err := st.currentRow(ctx, driver.KeyRef{Agent: opts.in(), Owner: opts.Owner, Key: opts.String()})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		past := !opts.Until.IsZero() && !row.UpdatedAt.Before(opts.Until)
		if past || row.UpdatedAt.Before(opts.Since) || opts.After != "" && after.Compare(row.Position()) >= 0 || !opts.fits(row, now) || !opts.awaits(row) {
			return nil, nil
		}
		return []*driver.Row{&row}, nil
	}
	st.table.PutRows(ctx, opts.Agent, true)
	agents := []string{opts.Agent}
	if opts.Agent == "" {
		rows, err := st.drv.List(ctx, "", driver.Position{}, 0)
		if err != nil {
			return nil, err
		}
		agents = nil
		for _, row := range rows {
			if !ofLibrary(row.Agent) {
				agents = append(agents, row.Agent)
			}
		}
	}
	inOrder := func(a, b *driver.Row) int {
		return cmp.Or(a.Position().Compare(b.Position()), cmp.Compare(a.Agent, b.Agent))
	}
	for _, agent := range agents {
		page := list // of the agents so far
		for row, err := range st.rows(ctx, agent, after, opts, now) {
			if err != nil {
				return nil, err
			}
			if opts.Limit > 0 && (len(list)-len(page) == opts.Limit || len(page) == opts.Limit && inOrder(page[opts.Limit-1], &row) <= 0) {
				break
			}
			list = append(list, &row)
		}
		if opts.Limit > 0 {
			slices.SortFunc(list, inOrder)
			list = list[:min(len(list), opts.Limit)]
		}
	}
	if len(agents) > 1 {
		slices.SortFunc(list, inOrder)
	}
	return list, nil
}

// currentRow returns the row of the current session of a key as the session stands, or
// as the index has it if the session cannot be read.
func (st *Store) currentRow(ctx context.Context, key driver.KeyRef) (row driver.Row, err error) {
	known, err := st.drv.Load(ctx, key, nil)
	if err != nil {
		return row, err
	}
	s := &Session{st, known.Ref()}
	err = s.View(ctx, func(v *View) error {
		row, err = v.row()
		return err
	})
	if err != nil {
		row = known
	}
	row.Current = true
	return row, ctx.Err()
}

func (o *ListOptions) awaits(row driver.Row) bool {
	return o.Waits == "" || string(o.Waits) == row.Waits || o.Waits == rebuild.WaitAny && row.Waits != ""
}

// The first page is small, as most agents add little to a list over all agents;
// later ones are larger.
const (
	firstPage = 16
	lastPage  = 1024
)

// rows yields an agent's rows after a cursor that fit a filter, the newest first.
func (st *Store) rows(ctx context.Context, agent string, after cursor, opts *ListOptions, now func() time.Time) iter.Seq2[driver.Row, error] {
	place := after.Position
	if agent > after.agent && after.agent != "" {
		place.ID += "\x00" // a session with the same time and ID comes after it
	}
	// No row that was updated at Until or later comes after this position.
	if until := (driver.Position{UpdatedAt: opts.Until}); !opts.Until.IsZero() && (after.agent == "" || until.Compare(place) > 0) {
		place = until
	}
	size := min(opts.Limit, firstPage) // 0 means all
	if opts.Agent != "" {
		size = min(opts.Limit, lastPage)
	}
	return func(yield func(driver.Row, error) bool) {
		for {
			rows, err := st.drv.List(ctx, agent, place, size)
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for _, row := range rows {
				if row.UpdatedAt.Before(opts.Since) {
					return
				}
				place = row.Position()
				fits := opts.fits(row, now)
				if fits && row.Stale && (opts.Waits != "" || row.Values != nil) {
					fresh := st.table.Refresh(ctx, row)
					row.Waits, row.Values, row.Unlisted = fresh.Waits, fresh.Values, fresh.Unlisted
				}
				if fits && opts.awaits(row) && !yield(row, nil) {
					return
				}
			}
			if size == 0 || len(rows) < size {
				return
			}
			size = min(2*size, lastPage)
		}
	}
}

// fits reports whether the state, the owner, the labels and the key of a row match
// the filter.
func (o *ListOptions) fits(row driver.Row, now func() time.Time) bool {
	switch trashed := isTrashed(row); o.State {
	case EveryState:
	case AnyState:
		if trashed {
			return false
		}
	default:
		if trashed != (o.State == Trashed) || o.State != stateOf(row, now) {
			return false
		}
	}
	if o.Current && !row.Current {
		return false
	}
	if o.Owner != "" && row.Owner != o.Owner || o.Label != "" && !slices.Contains(row.Labels, o.Label) {
		return false
	}
	if !names(row.Parent, o.Parent) || !names(row.Base, o.Base) {
		return false
	}
	want := [...]string{o.Channel, o.Account, o.Kind, o.Peer, o.Thread}
	if strings.Join(want[:], "") == "" {
		return true
	}
	k, err := ParseKey(row.Key)
	for i, got := range [...]string{k.Channel, k.Account, k.Kind, k.Peer, k.Thread} {
		if want[i] != "" && want[i] != got {
			return false
		}
	}
	return err == nil
}

// names reports whether a link is to a session. A zero ref matches any link.
func names(l transcript.Link, ref Ref) bool {
	return ref == (Ref{}) || inMain(ref) == Ref{Agent: l.Agent, ID: l.Session}
}
