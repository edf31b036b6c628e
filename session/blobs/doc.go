// Package blobs keeps the bytes of images, documents and audio beside the transcripts of
// a store:
//
//	store, err := session.Open(dir, &session.Options{Filters: []session.Filter{
//		blobs.Filter(blobs.Folder(dir), nil),
//	}})
//
// Media whose base64 is at least 16 KiB long become blobs; their lines name them by their
// hashes. A blob is on stable storage before the line that names it, and goes with its
// session. A fork has copies, so either session may be deleted. Every process that uses
// the store needs the same filter.
//
// [session.Session.History] and the exports read blobs; loading, searching, compacting
// and counting tokens do not. A short text replaces a blob that is missing.
//
// No blob is removed because an append fails: another append may have sent the same
// media. So an upload whose append failed, or was killed, stays until something is erased
// from its session or the session is deleted.
//
// [Folder] keeps blobs in files, [Memory] in memory. Package pgdriver has a [Store] for
// PostgreSQL, and blobstest checks others.
package blobs

import (
	"context"

	"github.com/convolog/convolog/session"
)

// Store keeps the bytes of media. Each session has blobs of its own, so that nobody
// learns from one session what another one has. A hash is the SHA-256 of the data in
// lower-case hexadecimal digits. A Store must be safe for several goroutines.
//
// A Store that can tell refuses a Put to a session that is not there, so that nothing
// stays of a session that is deleted during an append; it is a [Maker] then.
type Store interface {
	// Put stores data under its hash, where the same data may already be. A nil
	// error means that it survives a power cut. Appends to the session wait for Put.
	// It must not retain or modify data.
	Put(ctx context.Context, ref session.Ref, hash string, data []byte) error
	// Get returns the data with that hash, which the caller must not modify. If
	// there is none, the error matches [fs.ErrNotExist].
	Get(ctx context.Context, ref session.Ref, hash string) ([]byte, error)
	// List returns the hashes that a session has, in any order.
	List(ctx context.Context, ref session.Ref) ([]string, error)
	// Delete removes data. A hash without data is no error, and without hashes
	// nothing is removed.
	Delete(ctx context.Context, ref session.Ref, hashes ...string) error
}

// Maker is a [Store] that refuses a Put to a session that is not there.
type Maker interface {
	// Make has Put accept the blobs of a session that is about to be made, a fork for
	// example. Ctx ends when the session is there or was not made. Data that a killed
	// process has put before that is removed later.
	Make(ctx context.Context, ref session.Ref) error
}
