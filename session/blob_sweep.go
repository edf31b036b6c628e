package session

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/session/driver"
)

// sweepBlobs makes the blobs of the session those that its lines name: it removes what
// kills and erases have left, and copies what a fork lacks from its base.
func (s *Session) sweepBlobs(ctx context.Context) (err error) {
	if s.store.opts.Blobs == nil {
		return nil
	}
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	const tries = 100
	for range tries {
		if err = s.sweepOnce(ctx, t); !errors.Is(err, errGrown) {
			break
		}
	}
	return err
}

var errGrown = errors.New("somebody has appended meanwhile: try again")

// sweepOnce is sweepBlobs unless somebody appends meanwhile: then the error is errGrown.
func (s *Session) sweepOnce(ctx context.Context, t *state) error {
	blobs, base := s.store.opts.Blobs, s.base(ctx)
	there, err := blobs.List(ctx, s.ref)
	if err != nil || len(there) == 0 && base.ID == "" {
		return err
	}
	named, end := map[string]bool{}, driver.Cursor(0)
	for rec, err := range s.Records(ctx) {
		if err != nil {
			return err
		}
		end = max(end, driver.Cursor(rec.End))
		maps.Insert(named, blobsOf(rec.Entry))
	}
	alone := func(do func(ctx context.Context) error) error { // while nobody appends
		_, err := s.store.drv.Append(ctx, s.ref, nil, driver.Cond{Decide: func(ctx context.Context, now driver.Cursor) ([]driver.Line, error) {
			if now != end {
				return nil, errGrown
			}
			return nil, do(ctx)
		}})
		t.rowDue.Store(true) // the index may say that this process is about to append
		return err
	}
	var orphans []string
	for _, hash := range there {
		if !named[hash] {
			orphans = append(orphans, hash)
		}
		delete(named, hash)
	}
	if len(orphans) > 0 {
		if err := alone(func(ctx context.Context) error { return blobs.Delete(ctx, s.ref, orphans...) }); err != nil {
			return err
		}
	}
	if base.ID == "" {
		return nil
	}
	for _, hash := range slices.Sorted(maps.Keys(named)) {
		data, err := blobs.Get(ctx, base, hash)
		if errors.Is(err, fs.ErrNotExist) {
			continue // missing in both
		}
		if err == nil {
			err = alone(func(ctx context.Context) error { return blobs.Put(ctx, s.ref, hash, data) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeBlobs removes the blobs of sessions that are not there any more.
func (st *Store) removeBlobs(ctx context.Context, refs ...Ref) (err error) {
	if st.opts.Blobs == nil {
		return nil
	}
	for _, ref := range refs {
		// A scope must not take the sessions of others for deleted ones.
		if _, getErr := st.table.store.drv.Get(ctx, ref); !errors.Is(getErr, fs.ErrNotExist) {
			continue
		}
		hashes, listErr := st.opts.Blobs.List(ctx, ref)
		if listErr == nil {
			listErr = st.opts.Blobs.Delete(ctx, ref, hashes...)
		}
		err = errors.Join(err, listErr)
	}
	return err
}
