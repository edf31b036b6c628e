package filedriver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// busyWait is how long an append waits for the lock of the index, and how long a
// writer waits for a transcript. Others hold these locks for moments; a stopped
// process must not stop this one.
const busyWait = 500 * time.Millisecond

// openWriter adds this process to the writers that the index names, before its first
// append.
func (x *index) openWriter(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	err := x.locked(short, func() error {
		if x.by.Load() != 0 {
			return nil
		}
		by := firstWriter + rand.Int64N(writers)
		lockErr := x.lock.TryLock(by)
		if lockErr != nil && !errors.Is(lockErr, errors.ErrUnsupported) {
			return lockErr
		}
		err := x.write(record{Open: by})
		switch {
		case err == nil:
			x.by.Store(by)
		case lockErr == nil:
			_ = x.lock.Unlock(by) // a lock that stays ends with the process
		}
		return err
	})
	if ctx.Err() == nil && errors.Is(err, driver.ErrBusy) {
		// If this process is killed, a session may keep an old place in lists.
		x.a.d.log.Warn("the index is locked by a process that does not go on", "folder", x.a.dir, "err", err)
		return nil
	}
	return err
}

// closeWriter writes the rows of sessions that this process had open and takes its name
// from the writers. After a failure other processes find a dead writer.
func (x *index) closeWriter(ids []string) {
	if x.by.Load() == 0 {
		return
	}
	err := x.locked(context.Background(), func() error {
		for _, id := range ids {
			x.check(id)
			if e := x.find(id); e != nil && e.n == 0 && e.key != "" {
				x.news = append(x.news, id)
			}
		}
		if err := x.addNews(); err != nil {
			return err
		}
		return x.write(record{Closed: x.by.Swap(0)})
	})
	if err != nil {
		x.a.d.log.Warn("the index was not brought up to date; other processes compare it with the transcripts", "folder", x.a.dir, "err", err)
	}
}

// isAlive reports whether a writer may still append. Where the system cannot tell, all
// writers count as alive; a store that is read-only takes them for dead.
func (x *index) isAlive(by int64) bool {
	if own := by == x.by.Load(); own || x.lock == nil {
		return own
	}
	held, err := x.lock.Held(by)
	return held || err != nil && !x.a.d.opts.ReadOnly
}

// seekDead makes compare look at all transcripts once for each writer that has died: it
// may have appended to sessions whose rows are older.
func (x *index) seekDead() error {
	dead := func() (all []int64) {
		for by, known := range x.writers {
			if !known && !x.isAlive(by) {
				all = append(all, by)
			}
		}
		return all
	}
	if len(dead()) == 0 {
		return nil
	}
	if err := x.refresh(); err != nil { // a writer that closes takes its name away first
		return err
	}
	for _, by := range dead() {
		x.writers[by], x.lost = true, true
	}
	return nil
}

// change adds a line that makes every process look at the files of a session until
// its next row. The caller holds the lock of the index.
func (x *index) change(id string) error { return x.write(record{Change: id}) }

// putRow writes the row of a session. The caller holds the lock of the index.
func (x *index) putRow(row driver.Row) error { return x.write(record{Row: &row}) }

// putLate is putRow after a change that is done. If the index has no room, the line of
// the change makes readers look at the files.
func (x *index) putLate(row driver.Row) {
	if err := x.putRow(row); err != nil {
		x.a.d.log.Warn("the row of a session was not written; readers look at its files", "folder", x.a.dir, "session", row.ID, "err", err)
	}
}

// putChecked is putLate for the row of a session as its transcript is now.
func (x *index) putChecked(ref driver.Ref) {
	if row, err := x.checked(ref); err == nil {
		x.putLate(row)
	}
}
