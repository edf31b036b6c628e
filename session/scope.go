package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// maxOwner is the length of the longest owner of a scope, in bytes.
const maxOwner = 512

// Scope returns a store with the sessions of one owner and no others. All of its
// methods, and those of its sessions, work as if there were no others: a session or
// a key of somebody else gives an error that matches [fs.ErrNotExist], and the scope
// lists, finds, searches and counts only sessions of the owner. New sessions
// belong to the owner. It is for programs with several users: make a scope for each
// request, and do not hand out the Store itself.
//
// No call on a scope changes the owner of a session. Another owner in options,
// metadata or an imported header is an error, and so are entries that only the store
// writes, such as those that make a session current. A key belongs to the owner of
// its current session. IDs are unique within an agent: one that another owner uses
// is in use, and gives an error that matches [fs.ErrExist]. A program that lets its
// users choose IDs tells them that much; IDs that the store makes are never in use.
//
// If the deletion of a session fails half way, nothing tells its owner any more: a
// scope that is asked again says that there is no such session. The deletion is
// finished with the next session of the agent that is made or deleted, and
// [Store.Delete] of the Store itself reports whether it could be.
//
// Sessions without an owner are in no scope. The owner is 1 to 512 bytes of UTF-8;
// any other gives an error that matches [fs.ErrInvalid]. A scope costs nothing, is
// safe for several goroutines like its Store, and need not be closed; closing it does
// nothing. If a session is given to another owner from outside the scope, handles that
// the scope has returned before can still append and read the history; their other
// calls look the session up again, and fail.
func (st *Store) Scope(owner string) (*Store, error) {
	switch {
	case owner == "" || len(owner) > maxOwner || !utf8.ValidString(owner):
		return nil, fmt.Errorf("session: scope: an owner of %d bytes, want 1 to %d bytes of UTF-8: %w", len(owner), maxOwner, fs.ErrInvalid)
	case st.owner != "" && st.owner != owner:
		return nil, fmt.Errorf("session: scope: of another owner than the scope it is asked of: %w", fs.ErrNotExist)
	}
	return &Store{shared: st.shared, drv: &scoped{st.table.store.drv, owner}, owner: owner}, nil
}

// Owner returns the owner of a scope, and "" of a store that is none.
func (st *Store) Owner() string { return st.owner }

var (
	// errNotHere is all that a scope says of what is somebody else's, and of what
	// nobody has.
	errNotHere = fmt.Errorf("there is no such session: list the sessions to see which there are: %w", fs.ErrNotExist)
	errOwner   = errors.New("it would have another owner than the scope: nothing was written")
)

// claim makes a header one of the scope.
func (st *Store) claim(h *transcript.Header) error {
	switch owner := h.Meta.Owner; {
	case st.owner == "":
	case owner == nil || *owner == "":
		h.Meta.Owner = &st.owner
	case *owner != st.owner:
		return errOwner
	}
	return nil
}

// permits reports why a scope does not take entries.
func (st *Store) permits(entries []transcript.Entry) error {
	if st.owner == "" {
		return nil
	}
	for _, e := range entries {
		switch b := e.Body.(type) {
		case transcript.Header, transcript.Current, transcript.Erasure:
			return fmt.Errorf("%s: entries of this type are not for a scope: nothing was written", e.Type())
		case transcript.Meta:
			if b.Owner != nil && *b.Owner != st.owner {
				return errOwner
			}
		}
	}
	return nil
}

// scoped is a driver that has the sessions of one owner alone. Every method of
// every ability of drivers is here, so that none leads past it.
type scoped struct {
	driver.Driver
	owner string
}

var (
	_ driver.Watcher   = (*scoped)(nil)
	_ driver.Sifter    = (*scoped)(nil)
	_ driver.Recoverer = (*scoped)(nil)
	_ driver.Rewriter  = (*scoped)(nil)
	_ driver.Archiver  = (*scoped)(nil)
)

// told returns what a scope says of a session that may have changed, and false if
// that is nothing. One that is gone may have been anybody's.
func (st *Store) told(ctx context.Context, ref Ref) (Ref, bool) {
	d, ok := st.drv.(*scoped)
	if !ok || ref == (Ref{}) {
		return ref, true
	}
	row, err := getOwned(ctx, d.Driver, ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Ref{}, true
	case err == nil && row.Owner != d.owner:
		return Ref{}, false
	}
	return ref, true
}

// getOwned returns the row of a session with its owner. Of a transcript that the index
// does not know a driver may have read the header alone; a list reads the rest.
func getOwned(ctx context.Context, d driver.Driver, ref Ref) (driver.Row, error) {
	row, err := d.Get(ctx, ref)
	if err == nil && row.Size == 0 {
		if _, err = d.List(ctx, ref.Agent, driver.Place{}, 1); err == nil {
			row, err = d.Get(ctx, ref)
		}
	}
	return row, err
}

// check reports that a session is not the owner's.
func (d *scoped) check(ctx context.Context, ref Ref) error {
	_, err := d.Get(ctx, ref)
	return err
}

func (d *scoped) Get(ctx context.Context, ref Ref) (driver.Row, error) {
	row, err := getOwned(ctx, d.Driver, ref)
	return row, d.hide(row, err)
}

// hide returns the error of a call that has found a session.
func (d *scoped) hide(row driver.Row, err error) error {
	if err == nil && row.Owner != d.owner || errors.Is(err, fs.ErrNotExist) {
		return errNotHere
	}
	return err
}

func (d *scoped) Append(ctx context.Context, ref Ref, lines []driver.Line, at driver.Cursor) (driver.Result, error) {
	if err := d.check(ctx, ref); err != nil {
		return driver.Result{}, err
	}
	return d.Driver.Append(ctx, ref, lines, at)
}

func (d *scoped) Update(ctx context.Context, ref Ref, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	if err := d.check(ctx, ref); err != nil {
		return driver.Result{}, err
	}
	return d.Driver.Update(ctx, ref, decide)
}

func (d *scoped) Scan(ctx context.Context, ref Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return d.scan(ctx, ref, d.Driver.Scan(ctx, ref, from, dir))
}

func (d *scoped) Sift(ctx context.Context, ref Ref, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return d.scan(ctx, ref, driver.Sift(ctx, d.Driver, ref, keep))
}

func (d *scoped) scan(ctx context.Context, ref Ref, recs iter.Seq2[transcript.Record, error]) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		if err := d.check(ctx, ref); err != nil {
			yield(transcript.Record{}, err)
			return
		}
		recs(yield)
	}
}

func (d *scoped) Settle(ctx context.Context, ref Ref) (driver.Cursor, error) {
	if err := d.check(ctx, ref); err != nil {
		return 0, err
	}
	return d.Driver.Settle(ctx, ref)
}

// mine reports that the current session of a key is somebody else's.
func (d *scoped) mine(ctx context.Context, agent, key string) error {
	row, err := d.Driver.Current(ctx, agent, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.hide(row, err)
}

func (d *scoped) Current(ctx context.Context, agent, key string) (driver.Row, error) {
	row, err := d.Driver.Current(ctx, agent, key)
	return row, d.hide(row, err)
}

func (d *scoped) LoadOrCreate(ctx context.Context, agent, key string, header func(gen int64) (driver.Row, driver.Line)) (driver.Row, bool, error) {
	row, created, err := d.Driver.LoadOrCreate(ctx, agent, key, header)
	return row, created, d.hide(row, err)
}

func (d *scoped) Create(ctx context.Context, agent, key string, header func(gen int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	if err := d.mine(ctx, agent, key); err != nil {
		return driver.Row{}, err
	}
	return d.Driver.Create(ctx, agent, key, header, more...)
}

func (d *scoped) SetCurrent(ctx context.Context, ref Ref, line func(gen int64) driver.Line) (driver.Row, error) {
	row, err := d.Get(ctx, ref)
	if err == nil {
		err = d.mine(ctx, ref.Agent, row.Key)
	}
	if err != nil {
		return driver.Row{}, err
	}
	return d.Driver.SetCurrent(ctx, ref, line)
}

func (d *scoped) Delete(ctx context.Context, refs ...Ref) error {
	for _, ref := range refs {
		if err := d.check(ctx, ref); err != nil {
			return err
		}
	}
	return d.Driver.Delete(ctx, refs...)
}

func (d *scoped) Put(ctx context.Context, row driver.Row) error {
	return on(ctx, d, row.Ref(), func(drv driver.Driver) error { return drv.Put(ctx, row) })
}

// List reads on until the page is full.
func (d *scoped) List(ctx context.Context, agent string, after driver.Place, n int) (list []driver.Row, err error) {
	for {
		rows, err := d.Driver.List(ctx, agent, after, n)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if after = row.Place(); row.Owner != d.owner {
				continue
			}
			if list = append(list, row); len(list) == n {
				return list, nil
			}
		}
		if n == 0 || len(rows) < n {
			return list, nil
		}
	}
}

// Agents leaves out agents that have no session of the owner's.
func (d *scoped) Agents(ctx context.Context) (names []string, err error) {
	all, err := d.Driver.Agents(ctx)
	for _, agent := range all {
		var rows []driver.Row
		if rows, err = d.List(ctx, agent, driver.Place{}, 1); err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			names = append(names, agent)
		}
	}
	return names, err
}

func (d *scoped) LockTurn(ctx context.Context, ref Ref, wait bool) (func() error, error) {
	if err := d.check(ctx, ref); err != nil {
		if wait && ctx.Err() != nil && errors.Is(err, ctx.Err()) { // it was the beginning of the wait
			err = fmt.Errorf("%w: %w", driver.ErrBusy, err)
		}
		return nil, err
	}
	return d.Driver.LockTurn(ctx, ref, wait)
}

func (d *scoped) Flush(ctx context.Context, ref Ref) error {
	return on(ctx, d, ref, func(drv driver.Driver) error { return drv.Flush(ctx, ref) })
}

func (d *scoped) Close() error { return nil }

// Watch is about all sessions if ref is zero: the loop over them sorts them out.
func (d *scoped) Watch(ref Ref, changed func(Ref, error)) (stop func(), err error) {
	w, err := able[driver.Watcher](d.Driver)
	if err == nil && ref != (Ref{}) {
		err = d.check(context.Background(), ref)
	}
	if err != nil {
		return nil, err
	}
	return w.Watch(ref, changed)
}

// able returns a driver as what has an ability.
func able[T any](drv driver.Driver) (T, error) {
	a, ok := drv.(T)
	if !ok {
		return a, fmt.Errorf("the driver of the store lacks this ability: %w", errors.ErrUnsupported)
	}
	return a, nil
}

// on makes a call on a session that needs an ability.
func on[T any](ctx context.Context, d *scoped, ref Ref, call func(T) error) error {
	a, err := able[T](d.Driver)
	if err == nil {
		err = d.check(ctx, ref)
	}
	if err != nil {
		return err
	}
	return call(a)
}

func (d *scoped) Recover(ctx context.Context, ref Ref) error {
	return on(ctx, d, ref, func(r driver.Recoverer) error { return r.Recover(ctx, ref) })
}

func (d *scoped) Rewrite(ctx context.Context, ref Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	return on(ctx, d, ref, func(r driver.Rewriter) error { return r.Rewrite(ctx, ref, change) })
}

func (d *scoped) Archive(ctx context.Context, ref Ref, check func(driver.Row) error) error {
	return on(ctx, d, ref, func(a driver.Archiver) error { return a.Archive(ctx, ref, check) })
}

func (d *scoped) Restore(ctx context.Context, ref Ref) error {
	return on(ctx, d, ref, func(a driver.Archiver) error { return a.Restore(ctx, ref) })
}

func (d *scoped) DeleteIf(ctx context.Context, refs []Ref, check func(driver.Row) error) []error {
	a, err := able[driver.Archiver](d.Driver)
	if err != nil {
		return slices.Repeat([]error{err}, len(refs))
	}
	errs := make([]error, len(refs))
	var mine []Ref
	var places []int
	for i, ref := range refs {
		if errs[i] = d.check(ctx, ref); errs[i] == nil {
			mine, places = append(mine, ref), append(places, i)
		}
	}
	for k, err := range a.DeleteIf(ctx, mine, check) {
		errs[places[k]] = err
	}
	return errs
}
