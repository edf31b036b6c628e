package filedriver

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// A busyMark records that a writer may have appended to a session since its
// last row of it. The transcript up to from is on stable storage.
type busyMark struct{ by, from int64 }

// busyWait is how long an append waits for the lock of the index, and how long
// a writer waits for a transcript that a dead writer was busy with. Others hold
// these locks for moments; one that was stopped must not stop this process.
const busyWait = 500 * time.Millisecond

// putRow writes the row of a session whose transcript has a size. The row ends
// the busy lines that it makes superfluous: of an archived session the lines of
// all writers, because none of them can append, else of dead ones whose bytes
// were found to be safe. The caller holds the lock of the index.
func (x *index) putRow(row driver.Row, size int64) error {
	rec := record{By: x.by, Row: &row}
	o := x.a.d.logs.find(row.Ref())
	for _, m := range x.busy[row.ID] {
		if row.Archived || o != nil && !x.alive(m.by) && o.isSafe(m) && row.Size >= size {
			rec.Ends = append(rec.Ends, m.by)
		}
	}
	recs := []record{rec}
	if from, still := x.stillBusy(row, o); still {
		recs = append(recs, record{By: x.by, Busy: row.ID, From: from})
	}
	return x.write(recs...)
}

// putChecked writes the row of a session as its transcript is now.
func (x *index) putChecked(ref driver.Ref) error {
	row, err := x.checked(ref)
	if err == nil {
		err = x.putRow(row, row.Size)
	}
	return err
}

// stillBusy reports whether this process must stay marked as busy with a
// session whose row it is about to write. The log is nil if it is not open.
func (x *index) stillBusy(row driver.Row, o *openLog) (from int64, still bool) {
	if row.Archived {
		return 0, false
	}
	still = slices.ContainsFunc(x.busy[row.ID], func(m busyMark) bool { return m.by == x.by })
	if o != nil {
		// An append that begins from here on sees that a busy line is missing, and
		// waits for the lock of the index. One that has begun is counted.
		still = o.told.Swap(false) || still
	}
	if !still {
		return 0, false
	}
	busy := o != nil && o.appends.Load() > 0
	f, err := x.a.stat(row.ID)
	from = x.a.d.logs.unsynced(row.Ref(), f.size)
	still = busy || err != nil || f.size != row.Size || from != f.size
	if o != nil {
		o.told.Store(still)
	}
	return from, still
}

// tell announces to others that this process is busy with a session before it
// appends to it. The first append to an open log comes this way.
func (x *index) tell(ctx context.Context, o *openLog) error {
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	err := x.locked(short, func() error {
		if !x.remake { // else all processes compare the index with the folder, until it is rewritten
			if err := x.compare(ctx); err != nil {
				return err
			}
			if err := x.addNews(); err != nil { // the busy line makes the index newer than the folder
				return err
			}
		}
		return x.markBusy(o)
	})
	switch {
	case ctx.Err() == nil && errors.Is(err, driver.ErrBusy):
		// Lists of other processes are stale until this one has put a row. If it is
		// killed inside a failing sync before that, its bytes are not suspected.
		x.a.d.log.Warn("the index is locked by a process that does not go on", "folder", x.a.dir, "err", err)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil // the append reports the fate of the session
	}
	return err
}

// markBusy writes the busy line of this process, unless there is one. The caller
// holds the lock of the index.
func (x *index) markBusy(o *openLog) error {
	if o.told.Load() {
		return nil
	}
	f, err := x.a.live(o.ref.ID)
	if errors.Is(err, driver.ErrArchived) {
		return nil // the log fails, and reports the fate of its lines
	}
	if err != nil {
		return err
	}
	err = x.write(record{By: x.by, Busy: o.ref.ID, From: x.a.d.logs.unsynced(o.ref, f.size)})
	o.told.Store(err == nil)
	return err
}

// alive reports whether a writer may still append. Where the system cannot
// tell, all writers count as alive.
func (x *index) alive(by int64) bool {
	if by == x.by {
		return true
	}
	held, err := x.lock.Held(by)
	return held || err != nil
}

// unsyncedByOthers is [filelog.Options.UnsyncedByOthers] for the log of a session: the
// first byte that another writer with a busy line may have left unsynced. After another
// boot there are no such bytes, since the cache equals the disk.
func (x *index) unsyncedByOthers(ref driver.Ref) (from int64, err error) {
	from = math.MaxInt64
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lock == nil {
		return from, nil
	}
	if err := x.refresh(); err != nil || x.otherBoot {
		return from, err
	}
	var dead []int64
	for _, m := range x.busy[ref.ID] {
		if !x.alive(m.by) {
			dead = append(dead, m.by)
		}
	}
	if len(dead) > 0 { // a store that was closed has ended its busy lines, perhaps since they were read
		if err := x.refresh(); err != nil {
			return from, err
		}
	}
	o := x.a.d.logs.find(ref)
	for _, m := range x.busy[ref.ID] {
		if m.by == x.by {
			continue
		}
		from = min(from, m.from)
		if o != nil && slices.Contains(dead, m.by) {
			o.suspect(m)
		}
	}
	return from, nil
}

// suspect tells a log of a dead writer, and reports whether that was new to it. The
// caller holds index.mu.
func (o *openLog) suspect(m busyMark) bool {
	if o.suspects[m.by] {
		return false
	}
	if o.suspects == nil {
		o.suspects = map[int64]bool{}
	}
	o.suspects[m.by] = true
	o.log.Suspect(m.from)
	return true
}

// isSafe reports whether bytes of a dead writer are known to be on stable storage. If
// the writer has died since the log learned of others, the next call that reports
// durability finds out; under [driver.SyncNever] that is a Flush. The caller holds
// index.mu.
func (o *openLog) isSafe(m busyMark) bool { return !o.suspect(m) && !o.log.Suspects() }

// reap looks after the sessions that writers were busy with when they died.
func (x *index) reap(ctx context.Context) {
	for _, id := range slices.Sorted(maps.Keys(x.busy)) {
		if !slices.ContainsFunc(x.busy[id], func(m busyMark) bool { return !x.alive(m.by) }) {
			continue
		}
		if err := x.bury(ctx, driver.Ref{Agent: x.a.name, ID: id}); err != nil {
			x.a.d.log.Warn("a session that a killed process was busy with could not be looked after", "agent", x.a.name, "session", id, "err", err)
		}
	}
}

// bury makes sure that what dead writers left of a session is on stable storage,
// and writes the row that ends their busy lines.
func (x *index) bury(ctx context.Context, ref driver.Ref) error {
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	if f, err := x.a.stat(ref.ID); err == nil && f.archived {
		return x.putChecked(ref)
	}
	o, err := x.a.acquire(ref)
	if err != nil {
		return err
	}
	x.aside(func() {
		if _, err = o.log.Settle(short); err == nil {
			err = o.log.Flush(short) // whatever the policy: else their busy lines would never end
		}
	})
	if err == nil {
		err = x.putChecked(ref)
	}
	return x.a.d.logs.release(o, err)
}
