package session

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A sweep is what kills have left of the blobs of a session.
type sweep struct {
	found   bool
	done    *atomic.Bool      // set when it was cleared
	end     driver.Cursor     // up to which the session was read
	orphans []string          // that no line names
	missing map[string][]byte // that a fork has not copied yet, from its base
}

// leftovers looks for what kills have left, once in a process, and again after an
// append that has failed.
func (s *Session) leftovers(ctx context.Context) (left sweep) {
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	if t.swept.Load() {
		return left
	}
	there, err := s.store.opts.Blobs.List(ctx, s.ref)
	base := s.base(ctx)
	named := map[string]bool{}
	if err == nil && (len(there) > 0 || base.ID != "") {
		left.end, err = s.blobs(ctx, named)
	}
	if err != nil {
		s.store.opts.Logger.Warn("blobs that nobody needs were not looked for", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
		return sweep{}
	}
	left.found, left.done, left.missing = true, &t.swept, map[string][]byte{}
	for _, hash := range there {
		if !named[hash] {
			left.orphans = append(left.orphans, hash)
		}
		delete(named, hash)
	}
	for hash := range named {
		if data, err := s.store.opts.Blobs.Get(ctx, base, hash); base.ID != "" && err == nil {
			left.missing[hash] = data
		}
	}
	return left
}

// blobs adds the hashes of the blobs that the lines of the session name, and returns
// the place after the last line.
func (s *Session) blobs(ctx context.Context, named map[string]bool) (end driver.Cursor, err error) {
	for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Forward) {
		if err != nil {
			return 0, err
		}
		end = max(end, driver.Cursor(rec.End))
		maps.Insert(named, blobsOf(rec.Entry))
	}
	return end, nil
}

// clear removes and restores what was found, unless somebody has appended since. The
// append lock is held.
func (left sweep) clear(ctx context.Context, s *Session, needed map[string][]byte, start driver.Cursor) {
	blobs := s.store.opts.Blobs
	if !left.found || left.end != 0 && left.end != start {
		return
	}
	orphans := slices.DeleteFunc(left.orphans, func(hash string) bool { return needed[hash] != nil })
	err := blobs.Delete(ctx, s.ref, orphans...)
	for hash, data := range left.missing {
		err = errors.Join(err, blobs.Put(ctx, s.ref, hash, data))
	}
	if err != nil {
		s.store.opts.Logger.Warn("blobs were not put in order; the next process will do it", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	left.done.Store(true)
}

var errGrown = errors.New("somebody has appended meanwhile")

// dropBlobs removes the blobs of the session that no line names any more.
func (s *Session) dropBlobs(ctx context.Context) error {
	blobs := s.store.opts.Blobs
	if blobs == nil {
		return nil
	}
	for {
		t := s.store.table.acquire(s.ref)
		t.swept.Store(false)
		s.store.table.release(t)
		left := s.leftovers(ctx)
		if !left.found {
			return errors.New("the blobs of the session were not listed: erase again")
		}
		_, err := s.store.drv.Append(ctx, s.ref, nil, driver.Cond{Check: func(ctx context.Context, start driver.Cursor) error {
			if left.end != 0 && left.end != start {
				return errGrown
			}
			return blobs.Delete(ctx, s.ref, left.orphans...)
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
