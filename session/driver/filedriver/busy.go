package filedriver

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// A busyMark says that a writer may have appended to a session since its last
// row of it. The transcript up to from is on stable storage.
type busyMark struct{ by, from int64 }

// A use says that this process has told others that it is busy with a session.
type use struct{ appends int } // under way

// busyWait is how long an append waits for the lock of the index, and how long
// a writer waits for a transcript that a dead writer was busy with. Others hold
// these locks for moments; one that was stopped must not stop this process.
const busyWait = 500 * time.Millisecond

// putRow writes the row of a session whose transcript has a size. The row ends
// the busy lines that it makes superfluous. The caller holds the lock of the
// index.
func (x *index) putRow(row driver.Row, size int64) error {
	rec := record{By: x.by, Row: &row}
	for _, m := range x.busy[row.ID] {
		if row.Size >= size && m.by != x.by && x.a.d.logs.checked(row.Ref()) && !x.alive(m.by) {
			rec.Ends = append(rec.Ends, m.by)
		}
	}
	recs := []record{rec}
	if from, still := x.stillBusy(row); still {
		recs = append(recs, record{By: x.by, Busy: row.ID, From: from})
	}
	return x.write(recs...)
}

// stillBusy reports whether this process must go on saying that it is busy with
// a session whose row it is about to write.
func (x *index) stillBusy(row driver.Row) (from int64, still bool) {
	x.ownMu.Lock()
	defer x.ownMu.Unlock()
	u := x.own[row.ID]
	if u == nil {
		return 0, false
	}
	f, err := x.a.stat(row.ID) // under ownMu: no append begins meanwhile
	from = x.a.d.logs.unsynced(row.Ref(), f.size)
	if u.appends == 0 && err == nil && f.size == row.Size && from == f.size {
		delete(x.own, row.ID)
		return 0, false
	}
	return from, true
}

// begin is called before an append to a session: it makes sure that others know
// that this process is busy with it. The use may be nil; end must be called with
// it when the append has ended.
func (x *index) begin(ctx context.Context, o *openLog) (u *use, err error) {
	x.suspect(o)
	if u = x.joined(o.ref.ID); u != nil {
		return u, nil
	}
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	err = x.locked(short, func() (err error) {
		u, err = x.join(o.ref)
		return err
	})
	switch {
	case err == nil:
		return u, nil
	case ctx.Err() == nil && errors.Is(err, driver.ErrBusy):
		// Lists of other processes are behind until this one has put a row.
		x.a.d.log.Warn("the index is locked by a process that does not go on", "folder", x.a.dir, "err", err)
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // the append says what has become of the session
	}
	return nil, err
}

// join counts an append, and writes the busy line if there is none. The caller
// holds the lock of the index.
func (x *index) join(ref driver.Ref) (*use, error) {
	if u := x.joined(ref.ID); u != nil {
		return u, nil
	}
	f, err := x.a.stat(ref.ID)
	if err == nil {
		err = x.write(record{By: x.by, Busy: ref.ID, From: x.a.d.logs.unsynced(ref, f.size)})
	}
	if err != nil {
		return nil, err
	}
	x.ownMu.Lock()
	defer x.ownMu.Unlock()
	u := &use{appends: 1}
	x.own[ref.ID] = u
	return u, nil
}

// joined counts an append if this process has said that it is busy.
func (x *index) joined(id string) *use {
	x.ownMu.Lock()
	defer x.ownMu.Unlock()
	u := x.own[id]
	if u != nil {
		u.appends++
	}
	return u
}

// end ends an append that begin has counted. Replaced says that the session was
// deleted and may have been made again: then the index speaks of another one.
func (x *index) end(id string, u *use, replaced bool) {
	x.ownMu.Lock()
	defer x.ownMu.Unlock()
	if u != nil {
		u.appends--
	}
	if replaced && x.own[id] == u {
		delete(x.own, id)
	}
}

// alive reports whether a writer may still append. Where the system cannot
// tell, all writers count as alive.
func (x *index) alive(by int64) bool {
	if by == x.by {
		return true
	}
	if by == 0 {
		return true // the mark of a transcript that cannot be understood
	}
	held, err := x.lock.Held(by)
	return held || err != nil
}

// suspect tells a log, before its first promise, which bytes a dead writer may
// have left in the page cache alone: a process that is killed while a sync fails
// takes the kernel's only report of that with it.
func (x *index) suspect(o *openLog) {
	if o.looked.Load() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	o.looked.Store(true)
	if x.lock == nil || x.refresh() != nil || !x.sameBoot {
		return // after another boot the cache holds what the disk has
	}
	for _, m := range x.busy[o.ref.ID] {
		if !x.alive(m.by) {
			o.log.Suspect(m.from)
		}
	}
}

// reap looks after the sessions that writers were busy with when they died: it
// makes sure that their bytes are on stable storage, and writes their rows.
func (x *index) reap(ctx context.Context) {
	for _, id := range slices.Sorted(maps.Keys(x.busy)) {
		var dead []int64
		for _, m := range x.busy[id] {
			if !x.alive(m.by) {
				dead = append(dead, m.by)
			}
		}
		if len(dead) == 0 {
			continue
		}
		if err := x.bury(ctx, driver.Ref{Agent: x.a.name, ID: id}, dead); err != nil {
			x.a.d.log.Warn("a session that a killed process was busy with could not be looked after", "agent", x.a.name, "session", id, "err", err)
		}
	}
}

// bury ends the busy lines of dead writers.
func (x *index) bury(ctx context.Context, ref driver.Ref, dead []int64) error {
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	o, err := x.a.d.logs.acquire(ref, func() (*filelog.Log, error) { return x.a.openLog(ref) })
	if err != nil {
		return err
	}
	for _, m := range x.busy[ref.ID] {
		if slices.Contains(dead, m.by) {
			o.log.Suspect(m.from)
		}
	}
	_, err = o.log.Settle(short)
	if err = x.a.d.logs.release(o, err); err != nil {
		return err
	}
	x.check(ref.ID)
	e := x.find(ref.ID)
	if e == nil {
		return nil
	}
	row, ok := x.row(e)
	if !ok {
		return errors.New("its row cannot be read")
	}
	return x.write(record{By: x.by, Ends: dead, Row: &row})
}
