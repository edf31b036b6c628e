package filedriver

import (
	"context"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
)

// hold calls f under the lock of the index and x.mu, with everything applied
// that others wrote and what dead writers left finished.
func (x *index) hold(ctx context.Context, f func() error) error {
	return x.locked(ctx, func() error {
		if err := x.finish(ctx); err != nil {
			return err
		}
		return f()
	})
}

// finish compares the index with the folder and ends what writers left when they
// died: an index that must be rewritten, deletions and sessions half made.
func (x *index) finish(ctx context.Context) error {
	if err := x.compare(ctx); err != nil {
		return err
	}
	if err := x.finishErases(); err != nil {
		x.a.d.log.Warn("an erase could not be finished; the next writer tries again", "folder", x.a.dir, "err", err)
	}
	if len(x.deletes) > 0 {
		remove := func(id string) error { return x.a.remove(id, busyWait) }
		if err := x.finishDeletes(slices.Collect(maps.Keys(x.deletes)), remove); err != nil {
			x.a.d.log.Warn("a deletion could not be finished; the next writer tries again", "folder", x.a.dir, "err", err)
		}
	}
	// A killed process may have set the mark of a deletion and not written its line.
	stray := x.info != nil && x.info.Mode()&fs.ModeSticky != 0 && len(x.deletes)+len(x.erases) == 0
	if x.remake || stray {
		if err := x.rewrite(false); err != nil { // a deletion must be possible on a full disk
			x.a.d.log.Warn("the index could not be rewritten", "folder", x.a.dir, "err", err)
		}
	}
	for id := range x.changes {
		if x.check(id); x.find(id) == nil { // it was being made
			delete(x.changes, id)
			_ = filelog.RemoveTemps(x.a.sess, fileName(id)) // useless; the header contains words
		}
		x.news = append(x.news, id)
	}
	if err := x.addNews(); err != nil {
		x.a.d.log.Warn("rows could not be written; the next writer tries again", "folder", x.a.dir, "err", err)
	}
	return nil
}

// finishErases makes the rows anew of sessions whose lines were replaced, and
// removes the old ones.
func (x *index) finishErases() error {
	for id := range x.erases {
		x.doubt(id) // a concurrent row may be of the old lines
		x.check(id)
	}
	if len(x.erases) == 0 {
		return nil
	}
	all := x.erases
	x.erases = map[string]bool{}
	err := x.rewrite(true)
	if err != nil {
		x.erases = all
	}
	return err
}
