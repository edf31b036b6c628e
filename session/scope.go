package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"github.com/convolog/convolog/session/driver"
)

// maxOwner is the length of the longest owner of a scope, in bytes.
const maxOwner = 512

// Scope returns a store with the sessions and keys of one owner and no others. It is
// for programs with several users: make a scope for each request, and do not hand out
// the Store itself.
//
// A session of another owner looks nonexistent: each call gives the same error for
// both, which matches [fs.ErrNotExist]. Keys of two owners have nothing in common, so
// each may have a current session of the same key. New sessions belong to the owner of
// the scope; options or an imported header with another owner give an error. IDs are
// unique within an agent: an ID that another owner uses gives an error that matches
// [fs.ErrExist]. A program that lets its users choose IDs tells them that much; the
// store never makes an ID that is in use.
//
// The owner of a session never changes. To give a conversation away, fork it with
// another [CreateOptions].Owner.
//
// Sessions without an owner are in no scope. The owner is 1 to 512 bytes of UTF-8;
// any other gives an error that matches [fs.ErrInvalid]. A scope costs nothing, is safe
// for several goroutines like its Store, and need not be closed; closing it does
// nothing. If the deletion of a session fails half way, the session is in no scope any
// more, and [Store.Delete] of the Store itself reports whether it was finished.
func (st *Store) Scope(owner string) (*Store, error) {
	switch {
	case owner == "" || len(owner) > maxOwner || !utf8.ValidString(owner):
		return nil, fmt.Errorf("session: scope: an owner of %d bytes, want 1 to %d bytes of UTF-8: %w", len(owner), maxOwner, fs.ErrInvalid)
	case st.owner != "" && st.owner != owner:
		return nil, fmt.Errorf("session: scope: of another owner than the scope it is asked of: %w", fs.ErrNotExist)
	}
	return &Store{shared: st.shared, owner: owner}, nil
}

// Owner returns the owner of a scope, and "" of a store that is not a scope.
func (st *Store) Owner() string { return st.owner }

var (
	// errNotFound hides other owners' sessions: they look nonexistent.
	errNotFound = fmt.Errorf("there is no such session: list the sessions to see which there are: %w", fs.ErrNotExist)
	errOwner    = errors.New("it would have another owner: nothing was written")
)

// own returns the error of the store for a row: that of the lookup, and in a scope
// errNotFound for the row of another owner.
func (st *Store) own(row driver.Row, err error) error {
	if st.owner != "" && (err == nil && row.Owner != st.owner || errors.Is(err, fs.ErrNotExist)) {
		return errNotFound
	}
	return err
}

// get returns the row of a session that the store shows.
func (st *Store) get(ctx context.Context, ref Ref) (driver.Row, error) {
	row, err := st.drv.Get(ctx, ref)
	return row, st.own(row, err)
}

// check returns an error if a scope does not show one of the sessions.
func (st *Store) check(ctx context.Context, refs ...Ref) (err error) {
	for i := 0; err == nil && st.owner != "" && i < len(refs); i++ {
		_, err = st.get(ctx, refs[i])
	}
	return err
}
