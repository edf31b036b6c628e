package blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/session"
)

// Store keeps the bytes of media. Each session has blobs of its own, so the blobs of one
// session show nothing about another one. A hash is the SHA-256 of the data in
// lower-case hexadecimal digits. A Store must be safe for several goroutines.
//
// A Store may refuse a Put to a session that does not exist, so that nothing stays of a
// session that is deleted during an append. It is a [Maker] then.
type Store interface {
	// Put stores data under its hash, where the same data may already be. A nil
	// error means that it survives a power cut. Appends to the session wait for Put.
	// It must not retain or modify data.
	Put(ctx context.Context, ref session.Ref, hash string, data []byte) error
	// Get returns the data with that hash, which the caller must not modify. If
	// it is missing, the error matches [fs.ErrNotExist].
	Get(ctx context.Context, ref session.Ref, hash string) ([]byte, error)
	// List returns the hashes that a session has, in any order.
	List(ctx context.Context, ref session.Ref) ([]string, error)
	// Delete removes data. It ignores hashes without data, and without hashes
	// it removes nothing.
	Delete(ctx context.Context, ref session.Ref, hashes ...string) error
}

// Maker is a [Store] that refuses a Put to a session that does not exist. A Store that
// wraps a Maker must be one.
type Maker interface {
	// Make has Put accept the blobs of a session that is about to be made, a fork for
	// example. Ctx ends when the session exists or was not made. If a kill comes before,
	// the data of the session is removed later.
	Make(ctx context.Context, ref session.Ref) error
}

// Copy copies blobs of a session to another Store, where the session must exist, and
// reads them back. Missing counts the hashes without data.
func Copy(ctx context.Context, from, to Store, ref session.Ref, hashes []string) (missing int, err error) {
	for _, hash := range hashes {
		data, err := from.Get(ctx, ref, hash)
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err == nil {
			err = to.Put(ctx, ref, hash, data)
		}
		if err != nil {
			return missing, err
		}
		got, err := to.Get(ctx, ref, hash)
		if err == nil && !bytes.Equal(got, data) {
			err = fmt.Errorf("the blob %.12s was read back with other content: check the other store, delete the session there and copy again", hash)
		}
		if err != nil {
			return missing, err
		}
	}
	return missing, nil
}
