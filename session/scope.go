package session

import (
	"fmt"
	"io/fs"
	"unicode/utf8"
)

// maxOwner is the length of the longest owner of a scope, in bytes.
const maxOwner = 512

// Scope returns a store with the sessions and keys of one owner. Programs with several
// users make a scope for each request, and do not hand out the Store itself.
//
// Keys of two owners have nothing in common, and a session of another owner, or of none,
// looks nonexistent: both give the same error, which matches [fs.ErrNotExist]. New
// sessions have the owner of the scope, and keep it: another owner in options or an
// imported header is an error. To give a conversation away, fork it in the Store itself.
// IDs are unique within an agent: an ID that another owner uses gives an error that
// matches [fs.ErrExist]. The store makes only unused IDs.
//
// The owner is 1 to 512 bytes of UTF-8; any other gives an error that matches
// [fs.ErrInvalid]. A scope costs nothing and is safe for several goroutines; closing it
// does nothing. A session whose deletion failed half way is in no scope: [Store.Delete]
// of the Store itself reports whether it was finished.
func (st *Store) Scope(owner string) (*Store, error) {
	switch {
	case owner == "" || len(owner) > maxOwner || !utf8.ValidString(owner):
		return nil, fmt.Errorf("session: scope: an owner of %d bytes, want 1 to %d bytes of UTF-8: %w", len(owner), maxOwner, fs.ErrInvalid)
	case st.owner != "" && st.owner != owner:
		return nil, fmt.Errorf("session: scope: the owner differs from the owner of the outer scope: %w", fs.ErrNotExist)
	}
	return &Store{shared: st.shared, owner: owner}, nil
}

// Owner returns the owner of a scope, and "" of a store that is not a scope.
func (st *Store) Owner() string { return st.owner }

var errOwner = &InputError{"owner", "it would have another owner"}
