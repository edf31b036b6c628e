package filedriver

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// Modes of an index. By the bit of deleteMode Open finds an unfinished deletion or
// erase without reading the index.
const (
	indexMode  fs.FileMode = 0o600
	deleteMode             = indexMode | fs.ModeSticky
)

// Lock bytes of sessions.lock: one for changes of the index, one for each
// living writer, and one for each session's turn, see turnByte.
const (
	indexByte   int64 = 0
	firstWriter int64 = 1 << 20
	writers     int64 = 1 << 48
)

// locked calls f under the lock of the index and x.mu, after applying others'
// lines and making sure that lines can be added.
func (x *index) locked(ctx context.Context, f func() error) error {
	if x.a.d.opts.ReadOnly {
		return x.fail("write index", driver.ErrReadOnly, "open the store without ReadOnly")
	}
	began := time.Now()
	err := x.lock.Lock(ctx, indexByte)
	x.a.d.waited(ctx, driver.Ref{Agent: x.a.name}, "append", began, err)
	if err != nil {
		return lockError(err)
	}
	defer func() { _ = x.lock.Unlock(indexByte) }() // a lock that stays ends with the process
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return err
	}
	if x.file != nil && x.info.Size() > x.applied { // a killed writer left a part of a line
		if err := x.cut(x.applied); err != nil {
			return x.fail("write index", err, "nothing was written; make room or make the file writable")
		}
		if err := x.refresh(); err != nil {
			return err
		}
	}
	return f()
}

// cut removes the part of a line after a place, even on a full disk, or else ends it.
func (x *index) cut(size int64) error {
	if x.file.Truncate(size) == nil {
		return nil
	}
	_, err := x.file.Write([]byte("\n"))
	return err
}

// aside calls f without x.mu, so that others can read the rows while f waits for
// the append lock of a session. The caller holds the lock of the index: no other
// process writes to it.
func (x *index) aside(f func()) {
	x.mu.Unlock()
	defer x.mu.Lock()
	f()
}

// briefly is aside for a call that takes the append lock of a session until its context
// ends. The holder may be a stopped process, which must not keep the lock of the index from
// others. Observers get ctx.
func (x *index) briefly(ctx context.Context, f func(ctx context.Context)) {
	short, cancel := context.WithTimeout(context.WithValue(ctx, caller{}, ctx), logWait)
	defer cancel()
	x.aside(func() { f(short) })
}

// caller is the context key of the context that a call of briefly was made with.
type caller struct{}

// addNews writes the rows that the index lacks, and removes the dead writers that
// owed them. The caller holds its lock.
func (x *index) addNews() error {
	var recs []record
	news := x.news
	x.news = map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(news)) {
		if e := x.find(id); e != nil && e.key == "" {
			recs = append(recs, record{Unknown: id}) // every process must look at it before it makes a session
		} else if e != nil {
			if row, ok := x.row(e); ok {
				recs = append(recs, record{Row: &row})
			}
		}
	}
	for by, dead := range x.writers {
		if dead && !x.lost {
			recs = append(recs, record{Closed: by})
		}
	}
	if len(recs) == 0 {
		return nil
	}
	err := x.write(recs...)
	if err != nil {
		maps.Copy(x.news, news)
	}
	return err
}

// write appends lines to the index and applies them. The caller holds the lock of the
// index.
func (x *index) write(recs ...record) error {
	if !x.lost && len(x.news) == 0 && x.listed != x.said { // the rows of all these names are in the file
		recs = append(recs, record{Listed: x.listed})
	}
	if x.by != 0 && !x.named.Load() { // the index was lost
		recs = append(recs, record{Open: x.by})
	}
	var lines []byte
	for _, rec := range recs {
		lines = appendRecord(lines, rec)
	}
	if x.file == nil { // there is no index, or a look at a new one failed
		err := x.refresh()
		if err == nil && x.file == nil {
			err = x.rewrite(false)
		}
		if err != nil {
			return err
		}
	}
	before := x.info.Size()
	n, err := x.file.Write(lines)
	if err != nil {
		if n > 0 {
			_ = x.cut(before) // the next writer tries again
		}
		return x.fail("write index", err, "nothing was written; make room or make the file writable")
	}
	if err := x.refresh(); err != nil {
		return err
	}
	// An erase rewrites the file itself, once the new row of the session is
	// written.
	if x.applied > 2*x.bytes+rewriteAbove && len(x.erases) == 0 {
		if err := x.rewrite(false); err != nil { // it continues to grow
			x.a.d.log.Warn("the index could not be rewritten", "folder", x.a.dir, "err", err)
			return x.refresh() // a failed look at the new file drops the rows
		}
	}
	return nil
}

// rewrite replaces the index by a new file with the rows, unfinished changes, open writers,
// deletions and erases. If sync is set the file is on stable storage when the error is nil.
func (x *index) rewrite(sync bool) error {
	head := record{Version: indexVersion, Boot: bootID(), Agent: x.a.name}
	if x.lost {
		head.Boot = "" // its readers must compare it with the transcripts
	}
	data := appendRecord(nil, head)
	all := maps.Clone(x.byID)
	maps.Copy(all, x.missing)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		e := all[id]
		if e.key == "" {
			data = appendRecord(data, record{Unknown: id})
			continue
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
		if !json.Valid(text) { // damage: the transcript holds the data of the row
			x.drop(id)
			x.lost = true
			return x.rewrite(sync)
		}
		data = append(data[:len(data)+e.n], "}\n"...)
	}
	for _, id := range slices.Sorted(maps.Keys(x.changes)) {
		data = appendRecord(data, record{Change: id})
	}
	for _, by := range slices.Sorted(maps.Keys(x.writers)) {
		if dead := x.writers[by]; !dead || x.lost { // the rows here cover the lines of dead ones
			data = appendRecord(data, record{Open: by})
		}
	}
	if !x.lost {
		data = appendRecord(data, record{Listed: x.listed})
	}
	for _, id := range slices.Sorted(maps.Keys(x.deletes)) {
		data = appendRecord(data, record{Delete: id})
	}
	for _, id := range slices.Sorted(maps.Keys(x.erases)) {
		data = appendRecord(data, record{Erase: id})
	}
	if x.remake && !x.lost { // a power cut may have taken lines but left their files
		if err := x.a.d.sweep(filepath.Base(x.a.dir)); err != nil {
			x.a.d.log.Warn("files that killed processes have left could not be removed; they may hold words of sessions", "folder", x.a.dir, "err", err)
		}
	}
	err := filelog.RemoveTemps(x.a.root, indexName)
	if err == nil {
		mode := indexMode
		if len(x.deletes)+len(x.erases) > 0 {
			mode = deleteMode
		}
		err = filelog.WriteFileAtomic(x.a.root, indexName, data, mode, sync)
		x.a.d.at("index: has its name")
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

// change adds a line that makes every process look at the files of a session until
// its next row. The caller holds the lock of the index.
func (x *index) change(id string) error { return x.write(record{Change: id}) }

// putRow writes the row of a session. The caller holds the lock of the index.
func (x *index) putRow(row driver.Row) error { return x.write(record{Row: &row}) }

// putLate is putRow after a finished change. If there is no room for the row, the change
// line makes readers look at the files.
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
