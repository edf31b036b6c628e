package filedriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// Lock bytes of sessions.lock: one for whoever writes to the index, one for
// each living writer, and one for the turn of each session, see turnByte.
const (
	indexByte   int64 = 0
	firstWriter int64 = 1 << 20
	writers     int64 = 1 << 48
)

// busyWait is how long an append waits for the lock of the index, and how long
// a writer waits for a transcript that a dead writer was busy with. Others hold
// these locks for moments; one that was stopped must not stop this process.
const busyWait = 500 * time.Millisecond

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

// locked calls f under the lock of the index and x.mu, with everything applied
// that others wrote, when a line can be added.
func (x *index) locked(ctx context.Context, f func() error) error {
	if x.lock == nil {
		return x.fail("write index", filelog.ErrReadOnly, "open the store without ReadOnly")
	}
	began := time.Now()
	err := x.lock.Lock(ctx, indexByte)
	x.a.d.waited(ctx, driver.Ref{Agent: x.a.name}, filelog.AppendLock, began, err)
	if err != nil {
		return lockError(err)
	}
	defer func() { _ = x.lock.Unlock(indexByte) }() // a lock that stays ends with the process
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return err
	}
	for x.by == 0 {
		by := firstWriter + rand.Int64N(writers)
		switch err := x.lock.TryLock(by); {
		case err == nil, errors.Is(err, errors.ErrUnsupported):
			x.by = by
		case !errors.Is(err, filelog.ErrBusy):
			return err
		}
	}
	switch {
	case x.file == nil:
		err = x.rewrite(false)
	case x.info.Size() > x.applied: // a killed writer left a part of a line
		if _, err = x.file.Write([]byte("\n")); err != nil {
			err = x.fail("write index", err, "nothing was written; make room or make the file writable")
		} else {
			err = x.refresh()
		}
	}
	if err != nil {
		return err
	}
	return f()
}

// lockError returns the error of a lock in terms of package driver.
func lockError(err error) error {
	switch {
	case errors.Is(err, filelog.ErrBusy):
		return fmt.Errorf("%w: %w", driver.ErrBusy, err)
	case errors.Is(err, filelog.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	return err
}

// finish compares the index with the folder and ends what writers left when they
// died: an index that must be rewritten, deletions and sessions half made.
func (x *index) finish(ctx context.Context) error {
	err := x.compare(ctx)
	switch {
	case err != nil:
	case len(x.deletes) > 0:
		err = x.finishDeletes() // and rewrites
	case x.remake:
		err = x.rewrite(false)
	}
	if err != nil {
		return err
	}
	var recs []record
	for id, marks := range x.busy {
		if x.find(id) == nil && !slices.ContainsFunc(marks, func(m busyMark) bool { return m.by == 0 }) {
			// Sessions are made under the lock, so nobody is making this one.
			if x.check(id); x.find(id) == nil {
				delete(x.busy, id)
				_ = filelog.RemoveTemps(x.a.sess, fileName(id)) // of no use to anybody; the header has words
			} else {
				x.news = append(x.news, id)
			}
		}
	}
	for _, id := range x.news {
		if e := x.find(id); e != nil && e.row != nil && e.key != "" {
			recs = append(recs, record{By: x.by, Row: e.row})
		}
	}
	for file := range x.strange {
		if id, ok := DecodeName(file[:len(file)-len(extension)]); ok && len(x.busy[id]) == 0 {
			recs = append(recs, record{Busy: id}) // every process must look at it before it makes a session
		}
	}
	x.news = nil
	if len(recs) > 0 {
		if err := x.write(recs...); err != nil {
			return err
		}
	}
	if !x.reaped {
		x.reaped = true
		x.reap(ctx)
	}
	return nil
}

// write appends lines to the index and applies them. The caller holds the lock
// of the index.
func (x *index) write(recs ...record) error {
	var lines []byte
	for _, rec := range recs {
		lines = appendRecord(lines, rec)
	}
	if x.file == nil {
		if err := x.rewrite(false); err != nil {
			return err
		}
	}
	before := x.info.Size()
	n, err := x.file.Write(lines)
	if err != nil {
		if n > 0 && x.file.Truncate(before) != nil {
			_, _ = x.file.Write([]byte("\n")) // keeps the part apart from what follows
		}
		return x.fail("write index", err, "nothing was written; make room or make the file writable")
	}
	if err := x.refresh(); err != nil {
		return err
	}
	// The mark of a deletion stays on the file until that is finished.
	if x.applied > 2*x.compact+rewriteAbove && len(x.deletes) == 0 {
		if err := x.rewrite(false); err != nil { // it goes on growing
			x.a.d.log.Warn("the index could not be rewritten", "folder", x.a.dir, "err", err)
		}
	}
	return nil
}

func appendRecord(dst []byte, rec record) []byte {
	if rec.Row != nil {
		row := *rec.Row
		row.Agent = "" // the first line has it
		for _, t := range []*time.Time{&row.UpdatedAt, &row.CreatedAt, &row.LastUserAt} {
			if *t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
				*t = time.Time{} // JSON has no form for it
			}
		}
		rec.Row = &row
	}
	line, _ := json.Marshal(rec) // never fails
	return append(append(dst, line...), '\n')
}

// rewrite puts the rows and the busy lines that nobody has ended into a new file
// in the place of the index, when no deletion is under way. Sync says that it
// must be on stable storage when the error is nil.
func (x *index) rewrite(sync bool) error {
	head := record{Version: 1, Boot: bootID(), Agent: x.a.name}
	if x.lost {
		head.Boot = "" // whoever reads it must compare it with the transcripts
	}
	data := appendRecord(nil, head)
	x.sort()
	for _, e := range x.base {
		if e.key == "" {
			continue // it has no header; a busy line speaks of it
		}
		if row := e.row; row != nil {
			data = appendRecord(data, record{Row: row})
			continue
		}
		data = append(data, headRow...)
		data = slices.Grow(data, e.n)
		text := data[len(data) : len(data)+e.n]
		if n, err := x.file.ReadAt(text, e.at); n < e.n {
			return x.fail("rewrite index", err, "nothing was written")
		}
		if !json.Valid(text) { // damage: the transcript says what the row should
			x.del(e)
			x.lost = true
			return x.rewrite(sync)
		}
		data = append(data[:len(data)+e.n], "}\n"...)
	}
	x.ownMu.Lock()
	for id := range x.own { // of which a damaged file may not speak any more
		if !slices.ContainsFunc(x.busy[id], func(m busyMark) bool { return m.by == x.by }) {
			x.busy[id] = append(x.busy[id], busyMark{by: x.by})
		}
	}
	x.ownMu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(x.busy)) {
		for _, m := range x.busy[id] {
			data = appendRecord(data, record{By: m.by, Busy: id, From: m.from})
		}
	}
	err := filelog.RemoveTemps(x.a.root, indexName)
	if err == nil {
		err = filelog.WriteFileAtomic(x.a.root, indexName, data, sync)
	}
	if err != nil {
		return x.fail("rewrite index", err, "the index is as it was")
	}
	was := x.learned
	if err := x.refresh(); err != nil {
		return err
	}
	x.learned, x.remake = was, was.lost
	return nil
}

// put replaces the row of a session, unless the index has one that was made of
// more of the transcript. It ends this writer's busy line if no append is under
// way and the row is about all there is.
func (x *index) put(ctx context.Context, row driver.Row) error {
	return x.hold(ctx, func() error {
		ref := row.Ref()
		f, err := x.a.stat(row.ID)
		if errors.Is(err, fs.ErrNotExist) {
			return x.a.d.notFound(ref)
		}
		if err != nil {
			return err
		}
		e := x.find(row.ID)
		if e == nil {
			x.look(f)
			if e = x.find(row.ID); e == nil {
				return x.a.spoilt("put session "+row.ID, f, x.strange[f.file], "restore it from a copy")
			}
		}
		if row.Size > 0 && row.Size < e.size && e.size <= f.size {
			if known, ok := x.row(e); ok {
				row = known
			}
		}
		row.Gen, row.Key = e.gen, e.key
		return x.putRow(row, f.size)
	})
}

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

// delete removes sessions for good: their lines in the index come first, so
// that whoever finds one of these finishes what a kill has left.
func (x *index) delete(ids []string) error {
	recs := make([]record, len(ids))
	for i, id := range ids {
		recs[i] = record{Delete: id}
	}
	// The mark lets Open find an index with a deletion to finish without reading
	// it. A rewritten index is a new file without the mark.
	_ = x.a.root.Chmod(indexName, 0o600|fs.ModeSticky)
	if err := x.write(recs...); err != nil {
		return err
	}
	if x.a.d.opts.Sync != filelog.SyncNever {
		if err := x.file.Sync(); err != nil {
			return x.fail("delete session", err, "it is not known whether the session is deleted: delete it again")
		}
	}
	return x.finishDeletes()
}

// finishDeletes removes the transcripts of deleted sessions and every line that
// speaks of them.
func (x *index) finishDeletes() error {
	for id := range x.deletes {
		ref := driver.Ref{Agent: x.a.name, ID: id}
		x.a.d.logs.drop(ref)
		x.ownMu.Lock()
		delete(x.own, id)
		x.ownMu.Unlock()
		if err := x.a.remove(id); err != nil {
			return x.a.d.wrap("delete session", x.a.d.Path(ref), err, "the session is not listed any more; delete it again, or remove the file by hand")
		}
	}
	durable := x.a.d.opts.Sync != filelog.SyncNever
	if durable {
		if err := filelog.SyncDir(x.a.sess, "."); err != nil {
			return err
		}
	}
	x.compared()
	deletes := x.deletes
	x.deletes = map[string]bool{}
	if err := x.rewrite(durable); err != nil {
		x.deletes = deletes
		return err
	}
	return nil
}

// remove removes the transcript of a session, and what a killed process has
// left of a copy of it. It holds the append lock meanwhile, so that nobody puts
// a copy in its place.
func (a *agent) remove(id string) error {
	name := fileName(id)
	ctx, cancel := context.WithTimeout(context.Background(), 20*busyWait)
	defer cancel()
	l, err := filelog.Open(a.sess, name, &filelog.Options{Sync: filelog.SyncNever, Folder: a.sessFile})
	switch {
	case err == nil:
		var release func()
		if release, err = l.Hold(ctx); err == nil {
			err = a.sess.Remove(name)
			release()
		} else if _, failed := errors.AsType[*filelog.NotDurableError](err); failed || errors.Is(err, filelog.ErrReplaced) {
			err = a.sess.Remove(name)
		}
		err = cmp.Or(err, l.Close())
	case !errors.Is(err, fs.ErrNotExist):
		err = a.sess.Remove(name) // it is no log; nobody can hold its lock
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return cmp.Or(err, filelog.RemoveTemps(a.sess, name))
}
