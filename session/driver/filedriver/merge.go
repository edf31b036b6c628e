package filedriver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/convolog/convolog/transcript/filelog"
)

// mergeSoon starts a merge beside what goes on if the journal has become as
// long as the snapshot: so all merges together write no more than a few times
// what the journal was given, and nobody waits while the rows are written. The
// caller holds the index.
func (x *index) mergeSoon(h *filelog.Held) {
	limit := x.mergeAfter + mergeAbove
	if x.snapshot != nil {
		limit = max(limit, x.snapshot.Size())
	}
	if h.End() < limit || x.beside {
		return
	}
	x.beside = true
	x.merges.Go(func() {
		err := x.mergeBeside()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.beside, x.mergeAfter = false, 0
		if err != nil { // nothing is lost: the journal has it
			x.mergeAfter = x.applied
			x.a.d.log.Warn("the index could not be merged", "folder", x.a.dir, "err", err)
		}
	})
}

// mergeBeside writes the rows as they are at one place of the journal without
// a lock, and takes the lock of the index only to put the snapshot in place
// and to write the lines behind that place again.
func (x *index) mergeBeside() error {
	x.mu.Lock()
	rows, journal, generation, at := x.rows.clone(), x.log(), x.generation, x.applied
	x.mu.Unlock()
	temp, err := x.a.writeSnapshot(rows, generation+1)
	if err == nil {
		err = x.hold(context.Background(), func(h *filelog.Held) error {
			if x.log() != journal || x.generation != generation || x.applied < at {
				return nil // another process was faster, or somebody removed the journal
			}
			return x.install(h, temp, at)
		})
	}
	x.a.discard(temp)
	return err
}

// merge writes the snapshot and empties the journal. The caller holds the
// index.
func (x *index) merge(h *filelog.Held) error {
	temp, err := x.a.writeSnapshot(x.rows, x.generation+1)
	if err == nil {
		err = x.install(h, temp, h.End())
	}
	x.a.discard(temp)
	return err
}

// install puts a snapshot of the rows as they were at a place of the journal
// under its name, and makes the lines behind that place the whole journal. The
// caller holds the index.
//
// Before the name changes, the journal says that it will: so a process that
// has read the journal to its end, and finds its generation unchanged, knows
// the snapshot without looking. If the process ends before the journal is
// emptied, its lines count for nothing, being of a lower generation; what the
// snapshot lacks of them is made again from the transcripts.
func (x *index) install(h *filelog.Held, temp string, at int64) error {
	next := x.generation + 1
	marked := x.marked && h.End() > at // by the last line behind that place
	rest := make([]byte, h.End()-at)
	if len(rest) > 0 {
		if err := x.readJournal(rest, at); err != nil {
			return err
		}
	}
	if err := x.write(h, change{Merge: &next}); err != nil {
		return err
	}
	err := x.a.root.Rename(temp, snapshotName)
	if err == nil && x.a.d.opts.Sync != filelog.SyncNever {
		err = filelog.SyncDir(x.a.root, ".")
	}
	var info fs.FileInfo
	if err == nil {
		info, err = x.a.root.Lstat(snapshotName)
	}
	if err != nil {
		return x.a.d.wrap("write index", filepath.Join(x.a.dir, snapshotName), err, "make the folder writable for this user")
	}
	x.generation, x.snapshot = next, info
	x.foreign, x.merging, x.damaged = false, false, false
	lines := append(change{Generation: &next}.line(), rest...)
	said := deletions(rest)
	for id := range x.deleted {
		switch {
		case said[id]:
		case x.removeFile(id) != nil:
			lines = append(lines, change{Delete: id}.line()...)
			marked = false
		default:
			// No line says so any more: a file that gets the name later, of a
			// session that somebody restores, is not to be removed.
			delete(x.deleted, id)
		}
	}
	if err := x.rewrite(h, lines); err != nil {
		return err
	}
	x.marked = marked
	return nil
}

// deletions are the sessions that lines of the journal say were deleted.
func deletions(lines []byte) map[string]bool {
	ids := map[string]bool{}
	for line := range bytes.Lines(lines) {
		var c change
		if bytes.HasPrefix(line, []byte(`{"delete":`)) && json.Unmarshal(line, &c) == nil {
			ids[c.Delete] = true
		}
	}
	return ids
}

// rewrite makes lines the whole journal. If that fails it may be empty: what it
// said is looked for in the transcripts, and whoever holds the index next puts
// that into a snapshot of a new generation, so that every process looks.
func (x *index) rewrite(h *filelog.Held, lines []byte) error {
	x.applied, x.marked = 0, false
	if err := h.Reset(lines); err != nil {
		x.lost = true
		return err
	}
	x.applied = h.End()
	return nil
}

// writeSnapshot writes a snapshot to a temporary file, which is returned also
// if that fails.
func (a *agent) writeSnapshot(rows *rows, generation int64) (temp string, err error) {
	temp = tempName()
	f, err := a.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		w := bufio.NewWriterSize(f, 256<<10)
		buf := append(strconv.AppendInt([]byte(snapshotHead), generation, 10), snapshotRows...)
		sep := "\n"
		for id, row := range rows.sorted() {
			buf = append(append(append(append(buf, sep...), '"'), id...), '"', ':')
			buf = row.appendTo(buf)
			_, _ = w.Write(buf) // what fails is kept for Flush
			buf, sep = buf[:0], ",\n"
		}
		_, _ = w.Write(append(buf, "\n"+snapshotEnd+"\n"...))
		if err = w.Flush(); err == nil && a.d.opts.Sync != filelog.SyncNever {
			err = f.Sync()
		}
		err = cmp.Or(err, f.Close())
	}
	return temp, a.d.wrap("write index", filepath.Join(a.dir, snapshotName), err, "make room on the disk, and the folder writable for this user")
}

// tempName is a name that filelog.IsTemp knows.
func tempName() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return ".tmp-" + hex.EncodeToString(random[:])
}

// discard removes a temporary file, unless it was given another name.
func (a *agent) discard(temp string) {
	if err := a.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.d.log.Warn("a temporary file is left; it is removed when it is old", "file", filepath.Join(a.dir, temp), "err", err)
	}
}
