package filedriver

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

const (
	snapshotName = "sessions.json"
	journalName  = "sessions.journal"
	// A journal longer than this, and than the snapshot, is merged into it.
	mergeAbove = 1 << 20
	// When the store is closed, one longer than this or than a quarter of the
	// snapshot is.
	mergeAtClose = 64 << 10
	// How often a merge by another process may get in the way of one reading.
	reloadTries = 100
	// A buffer for lines that is longer than this is not kept.
	maxLine = 64 << 10
)

// index is the list of an agent's sessions: a snapshot, which is one JSON
// document, and a journal of what has changed since. Both begin with the same
// generation number; a journal with a lower one was merged into the snapshot
// by a process that died before it could empty it.
//
// The lock of the index is the append lock of the journal, which is emptied in
// place and never renamed. Only who writes takes it.
type index struct {
	a *agent

	mu         sync.Mutex // guards what follows; taken after the lock of the index
	rows       *rows
	keys       map[string]*sessions  // of rows; not all of them unless allKeys is set
	allKeys    bool                  // keys has every key
	intents    map[string]driver.Row // announced and not yet there
	deleted    map[string]bool
	generation int64
	applied    int64 // offset of the first journal line that was not applied
	snapshot   fs.FileInfo
	corrupt    bool   // the snapshot is no index
	foreign    bool   // the snapshot is an index in another layout
	dirty      bool   // this process has changed something
	merging    bool   // the journal says that the snapshot changes: look at it
	line       []byte // where lines are made
	// Merges beside what goes on, see mergeSoon.
	beside     bool
	mergeAfter int64
	merges     sync.WaitGroup
	// Whether rows may be taken as they are, see trust.
	marked  bool  // the last line of the journal says that all is in order
	stamp   int64 // and this is what it says of the folder
	damaged bool  // a line of the journal was none
	trusted bool  // transcripts are looked at when their rows are used
	checked map[string]bool
	names   bool  // the names of the transcripts are to be compared with the rows
	listed  int64 // the folder's time when they were; 0: not known
	// What was learned from the transcripts themselves, see adopt.
	lost       bool             // rows may be missing or stale: look at the files
	unsaved    map[string]bool  // rows that the next writer writes
	leftover   []string         // deleted sessions whose files are still there
	unreadable map[string]error // by file name: transcripts without a header

	journalMu sync.Mutex // guards what follows; taken after mu
	journal   *filelog.Log
	old       []*filelog.Log // journals that were replaced and may be in use
	ending    bool           // nobody is to wait for the lock any more
}

func openIndex(a *agent) (*index, error) {
	x := &index{a: a, unreadable: map[string]error{}}
	var err error
	if x.journal, err = x.openJournal(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.reload(); err != nil {
		if x.journal != nil {
			err = errors.Join(err, x.journal.Close())
		}
		return nil, err
	}
	x.trust()
	return x, nil
}

// close closes the journal. Before that, unless another process has the index
// just now, it writes what was learned from the transcripts and the rows that
// did not get there when they were put, merges the journal if it has grown, for
// a snapshot costs as much as there are sessions, and marks the index as in
// order.
func (x *index) close() error {
	if x.journal == nil {
		return nil
	}
	x.interrupt()
	x.merges.Wait()
	changed := x.dirty || x.corrupt || x.foreign || len(x.unsaved) > 0 || len(x.behind()) > 0
	if x.a.name != "" && !x.a.d.opts.ReadOnly && (changed || !x.lost && (!x.marked || x.stamp != x.newStamp())) {
		// What fails here loses nothing: the journal has it.
		_ = x.hold(context.Background(), func(h *filelog.Held) error {
			if x.snapshot == nil || x.foreign || h.End() > min(mergeAtClose, x.snapshot.Size()/4) {
				if err := x.merge(h); err != nil {
					return err
				}
			}
			return x.mark(h)
		})
	}
	for _, old := range x.old {
		_ = old.Close() // what it has to say is why it was replaced
	}
	return x.journal.Close()
}

// ready brings the rows up to date, as far as that is possible without a lock
// and without writing. The caller holds x.mu.
func (x *index) ready(ctx context.Context) error {
	err := x.refresh()
	if errors.Is(err, errJournalGone) {
		if err = x.replaceJournal(x.log()); err == nil {
			err = x.reload()
		}
	}
	if err == nil && (x.lost || x.rows.lost || x.names) {
		err = x.adopt(ctx)
	}
	if err == nil {
		x.lookAtIntents()
	}
	return err
}

// hold calls f under the lock of the index and x.mu, with everything applied
// that other processes wrote and their unfinished work finished or discarded.
func (x *index) hold(ctx context.Context, f func(h *filelog.Held) error) error {
	h, err := x.acquire(ctx)
	if err != nil {
		return err
	}
	defer x.release(h)
	if x.names {
		if err := x.adopt(ctx); err != nil {
			return err
		}
	}
	return f(h)
}

// acquire takes the lock of the index and x.mu until release, and does what
// hold does but for sessions that the index may not know of.
func (x *index) acquire(ctx context.Context) (*filelog.Held, error) {
	for range reloadTries {
		h, err := x.acquireOnce(ctx)
		if err == nil {
			return h, nil
		}
		x.closeOld()
		if !errors.Is(err, errJournalGone) {
			return nil, err
		}
	}
	return nil, errJournalGone
}

func (x *index) release(h *filelog.Held) {
	x.mu.Unlock()
	h.Release()
	x.closeOld()
}

// closeOld closes journals that were replaced. The caller holds nothing: Close
// waits for who still holds their lock.
func (x *index) closeOld() {
	x.mu.Lock()
	x.journalMu.Lock()
	old := x.old
	x.old = nil
	x.journalMu.Unlock()
	x.mu.Unlock()
	for _, l := range old {
		_ = l.Close() // what it has to say is why it was replaced
	}
}

// lose says that a transcript is not where its row says: look at the files
// before the rows are used again. The caller does not hold x.mu.
func (x *index) lose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost = true
}

func (x *index) acquireOnce(ctx context.Context) (*filelog.Held, error) {
	h, journal, err := x.lock(ctx)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	acquired := false
	defer func() {
		if !acquired { // also when Options.Describe panics
			x.mu.Unlock()
			h.Release()
		}
	}()
	if x.log() != journal {
		return nil, errJournalGone // this is the lock of another one
	}
	if err := x.catchUp(h); err != nil {
		return nil, err
	}
	if x.corrupt {
		if err := x.setAside(); err != nil {
			return nil, err
		}
	}
	emptied := x.applied == 0 && x.lost
	if x.applied == 0 { // the journal is older than the snapshot, or cut short
		if err := x.rewrite(h, change{Generation: new(x.generation)}.line()); err != nil {
			return nil, err
		}
	}
	if err := x.finishIntents(h); err != nil {
		return nil, err
	}
	if x.lost || x.rows.lost {
		if err := x.adopt(ctx); err != nil {
			return nil, err
		}
	}
	if err := x.save(h); err != nil {
		return nil, err
	}
	if emptied {
		// Others may have read further in what the journal was. A new
		// generation makes them read anew.
		if err := x.merge(h); err != nil {
			return nil, err
		}
	}
	acquired = true
	return h, nil
}

// catchUp applies what others wrote, under the lock of the index. If the
// journal begins as it did, it has only grown: whoever merges it empties it,
// and says so in it before the snapshot changes. Then the snapshot is the one
// that was read.
func (x *index) catchUp(h *filelog.Held) error {
	if x.applied > 0 && x.applied <= h.End() && !x.merging {
		head := append(strconv.AppendInt(append(x.line[:0], `{"generation":`...), x.generation, 10), "}\n"...)
		n := len(head)
		x.line = append(head, head...)
		was, is := x.line[:n], x.line[n:]
		if read, err := x.log().ReadAt(is, 0); read == n && err == nil && bytes.Equal(was, is) {
			if h.End() == x.applied {
				return nil
			}
			if err := x.read(h.End()); err == nil && !x.merging {
				return nil
			}
		}
	}
	return x.refresh()
}

// write adds a change to the journal and applies it. The caller holds the
// index.
func (x *index) write(h *filelog.Held, c change) error {
	for _, row := range []**driver.Row{&c.Put, &c.Intent} {
		if *row != nil {
			short := **row // the caller's stays as it is
			bound(&short)
			*row = &short
		}
	}
	if err := x.append(h, c); err != nil {
		return err
	}
	x.apply(c)
	return nil
}

func (x *index) append(h *filelog.Held, c change) error {
	x.line = c.appendTo(x.line[:0])
	err := h.Append(x.line)
	if cap(x.line) > maxLine {
		x.line = nil
	}
	if err != nil {
		return err
	}
	if x.marked && x.a.d.opts.Sync != filelog.SyncNever {
		if err := h.Sync(); err != nil {
			return err
		}
	}
	x.dirty, x.marked, x.applied = true, false, h.End()
	return nil
}

// put replaces the row of a session, unless the index has one that was made of
// more of the transcript: who put that was faster.
func (x *index) put(ctx context.Context, row *driver.Row) error {
	h, err := x.acquire(ctx)
	if err != nil {
		return err
	}
	defer x.release(h)
	x.check(row.ID)
	old, known := x.known(row.ID)
	if !known {
		if old, err = x.find(row.Ref()); err != nil {
			return err
		}
	}
	if size, ok := x.rows.size(row.ID); ok && row.Size > 0 && row.Size < size {
		if f, err := x.a.stat(row.ID); err == nil && f.size >= size { // else it was replaced by a shorter one
			return nil
		}
	}
	row.Gen, row.Key = old.Gen, old.Key
	bound(row)
	if err := x.append(h, change{Put: row}); err != nil {
		return err
	}
	x.place(row.ID, lazyRow{row: row})
	x.mergeSoon(h)
	return nil
}

// refresh applies what was written since it was last called. It takes no lock
// of the kernel. The caller holds x.mu.
func (x *index) refresh() error {
	info, err := x.a.root.Lstat(snapshotName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.a.d.wrap("read index", filepath.Join(x.a.dir, snapshotName), err, "check that this user may read it")
	}
	if err == nil != (x.snapshot != nil) || err == nil && !sameFile(info, x.snapshot) {
		return x.reload()
	}
	journal := x.log()
	if journal == nil { // a read-only store that was opened before there was one
		if err := x.replaceJournal(nil); err != nil || x.log() == nil {
			return err
		}
		return x.reload()
	}
	size, err := journal.Size()
	if errors.Is(err, filelog.ErrReplaced) {
		return errJournalGone
	}
	if err != nil {
		return err
	}
	if size < x.applied {
		x.lost = true // unless another process has just merged it
		return x.reload()
	}
	switch err := x.read(size); {
	case errors.Is(err, errGeneration):
		return nil // hold empties it
	case errors.Is(err, errMoved):
		return x.reload()
	default:
		return err
	}
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
