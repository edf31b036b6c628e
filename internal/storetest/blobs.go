package storetest

import (
	"context"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
)

// Blobs has the methods of blobs.Store.
type Blobs interface {
	// See blobs.Store.
	Put(ctx context.Context, ref driver.Ref, hash string, data []byte) error
	Get(ctx context.Context, ref driver.Ref, hash string) ([]byte, error)
	List(ctx context.Context, ref driver.Ref) ([]string, error)
	Delete(ctx context.Context, ref driver.Ref, hashes ...string) error
}

// Watched counts the calls of a blob store, and can make calls fail.
type Watched struct {
	Blobs
	Puts, Gets atomic.Int64
	Fail       func(op string) error
}

// Put implements blobs.Store.
func (w *Watched) Put(ctx context.Context, ref driver.Ref, hash string, data []byte) error {
	w.Puts.Add(1)
	if w.Fail != nil {
		if err := w.Fail("put"); err != nil {
			return err
		}
	}
	return w.Blobs.Put(ctx, ref, hash, data)
}

// Get implements blobs.Store.
func (w *Watched) Get(ctx context.Context, ref driver.Ref, hash string) ([]byte, error) {
	w.Gets.Add(1)
	return w.Blobs.Get(ctx, ref, hash)
}

// Delete implements blobs.Store.
func (w *Watched) Delete(ctx context.Context, ref driver.Ref, hashes ...string) error {
	if w.Fail != nil {
		if err := w.Fail("delete"); err != nil {
			return err
		}
	}
	return w.Blobs.Delete(ctx, ref, hashes...)
}
