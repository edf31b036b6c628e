package session

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A sweep is what kills have left of the blobs of a session.
type sweep struct {
	end     driver.Cursor     // up to which the session was read; 0 if that was not needed
	orphans []string          // that no line names
	missing map[string][]byte // that a fork has not copied yet, from its base
}

// leftovers looks for what kills have left.
func (s *Session) leftovers(ctx context.Context) (*sweep, error) {
	blobs := s.store.opts.Blobs
	there, err := blobs.List(ctx, s.ref)
	if err != nil {
		return nil, err
	}
	left, base, named := &sweep{missing: map[string][]byte{}}, s.base(ctx), map[string]bool{}
	if len(there) > 0 || base.ID != "" {
		for rec, err := range s.Records(ctx) {
			if err != nil {
				return nil, err
			}
			left.end = max(left.end, driver.Cursor(rec.End))
			maps.Insert(named, blobsOf(rec.Entry))
		}
	}
	for _, hash := range there {
		if !named[hash] {
			left.orphans = append(left.orphans, hash)
		}
		delete(named, hash)
	}
	for hash := range named {
		if data, err := blobs.Get(ctx, base, hash); base.ID != "" && err == nil {
			left.missing[hash] = data
		}
	}
	return left, nil
}

var errGrown = errors.New("somebody has appended meanwhile")

// clear removes and restores what was found, but for the blobs that are needed. The
// append lock is held, and the session ends at a place: if somebody has appended since,
// the error is errGrown and nothing was done.
func (left *sweep) clear(ctx context.Context, s *Session, needed map[string][]byte, end driver.Cursor) error {
	if left.end != 0 && left.end != end {
		return errGrown
	}
	blobs := s.store.opts.Blobs
	orphans := slices.DeleteFunc(left.orphans, func(hash string) bool { return needed[hash] != nil })
	err := blobs.Delete(ctx, s.ref, orphans...)
	for hash, data := range left.missing {
		err = errors.Join(err, blobs.Put(ctx, s.ref, hash, data))
	}
	return err
}

// dropBlobs removes the blobs of the session that no line names any more.
func (s *Session) dropBlobs(ctx context.Context) error {
	if s.store.opts.Blobs == nil {
		return nil
	}
	for {
		left, err := s.leftovers(ctx)
		if err != nil || len(left.orphans) == 0 {
			return err
		}
		_, err = s.store.drv.Append(ctx, s.ref, nil, driver.Cond{Check: func(ctx context.Context, end driver.Cursor) error {
			return left.clear(ctx, s, nil, end)
		}})
		if !errors.Is(err, errGrown) {
			return err
		}
	}
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

// copyBlobs copies the blobs that a fork names from its base.
func (st *Store) copyBlobs(ctx context.Context, from, to Ref, lines []transcript.Entry) error {
	if st.opts.Blobs == nil {
		return nil
	}
	named := map[string]bool{}
	for _, e := range lines {
		maps.Insert(named, blobsOf(e))
	}
	for _, hash := range slices.Sorted(maps.Keys(named)) {
		data, err := st.opts.Blobs.Get(ctx, from, hash)
		if errors.Is(err, fs.ErrNotExist) {
			continue // missing in both
		}
		if err == nil {
			err = st.opts.Blobs.Put(ctx, to, hash, data)
		}
		if err != nil {
			return err
		}
	}
	if len(named) > 0 {
		return st.removeBlobs(ctx, to) // if somebody has deleted it meanwhile
	}
	return nil
}
