package filedriver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

const (
	snapshotName = "sessions.json"
	journalName  = "sessions.journal"
	// A journal longer than this, and than a quarter of the snapshot, is
	// merged into it.
	mergeAbove = 1 << 20
	// How often a merge by another process may get in the way of one reading.
	reloadTries = 100
)

// index is the list of an agent's sessions: a snapshot, which is one JSON
// document, and a journal of what has changed since. Both begin with the same
// generation number; a journal with a lower one was merged into the snapshot
// by a process that died before it could empty it.
//
// The lock of the index is the append lock of the journal, which is emptied in
// place and never renamed.
type index struct {
	a *agent

	mu         sync.Mutex   // guards what follows; taken after the lock of the journal
	journal    *filelog.Log // nil if it is not there and must not be made
	rows       map[string]driver.Row
	intents    map[string]driver.Row // announced and not yet there
	deleted    map[string]bool
	generation int64
	applied    int64 // offset of the first journal line that was not applied
	snapshot   fs.FileInfo
	dirty      bool // this process has changed something
	lost       bool // rows may be missing: look at the files
}

// change is a line of the journal. One field is set.
type change struct {
	Generation *int64      `json:"generation,omitempty"`
	Put        *driver.Row `json:"put,omitempty"`
	Intent     *driver.Row `json:"intent,omitempty"`
	Abort      string      `json:"abort,omitempty"`  // of an intent
	Delete     string      `json:"delete,omitempty"` // of a session
}

func (c change) line() []byte {
	line, err := json.Marshal(c)
	if err != nil { // rows hold nothing that cannot be marshalled, but a year over 9999
		line, _ = json.Marshal(change{Abort: "-"})
	}
	return append(line, '\n')
}

func openIndex(a *agent) (*index, error) {
	x := &index{a: a, lost: true}
	var err error
	if x.journal, err = x.openJournal(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.reload(); err != nil {
		return nil, err
	}
	return x, x.ready()
}

// openJournal opens the journal, and makes it if that is allowed.
func (x *index) openJournal() (*filelog.Log, error) {
	opts := &filelog.Options{Sync: filelog.SyncNever, ReadOnly: x.a.d.opts.ReadOnly}
	l, err := filelog.Open(x.a.root, journalName, opts)
	if !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	if opts.ReadOnly {
		return nil, nil
	}
	l, err = filelog.Create(x.a.root, journalName, change{Generation: new(int64)}.line(), opts)
	if errors.Is(err, fs.ErrExist) {
		return filelog.Open(x.a.root, journalName, opts)
	}
	return l, err
}

func (x *index) log() *filelog.Log {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.journal
}

// close brings the snapshot up to date and closes the journal.
func (x *index) close() error {
	if x.journal == nil {
		return nil
	}
	if x.dirty {
		// What fails here loses nothing: the journal has it.
		_ = x.hold(context.Background(), x.merge)
	}
	return x.journal.Close()
}

// ready brings the rows up to date. The caller holds x.mu, which is released
// in between if transcripts have to be looked at.
func (x *index) ready() error {
	if err := x.refresh(); err != nil || !x.lost {
		return err
	}
	if x.journal == nil || x.a.d.opts.ReadOnly {
		return x.adopt(nil)
	}
	x.mu.Unlock()
	defer x.mu.Lock()
	return x.hold(context.Background(), func(*filelog.Held) error { return nil })
}

// hold calls f under the lock of the index, with everything applied that other
// processes wrote and their unfinished work finished or discarded.
func (x *index) hold(ctx context.Context, f func(h *filelog.Held) error) error {
	journal := x.log()
	if journal == nil || x.a.d.opts.ReadOnly {
		return x.readOnly()
	}
	h, err := journal.Hold(ctx)
	if _, ok := errors.AsType[*filelog.NotDurableError](err); ok {
		if journal, err = x.reopen(journal); err == nil {
			h, err = journal.Hold(ctx)
		}
	}
	if err != nil {
		return err
	}
	defer h.Release()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return err
	}
	if x.applied == 0 { // the journal is older than the snapshot, or cut short
		if err := h.Reset(change{Generation: new(x.generation)}.line()); err != nil {
			return err
		}
		x.applied = h.End()
	}
	if err := x.finishIntents(h); err != nil {
		return err
	}
	if x.lost {
		if err := x.adopt(h); err != nil {
			return err
		}
	}
	return f(h)
}

// reopen replaces a journal that could not be synced. That is no cure for a
// transcript, but what a journal says can be derived from the transcripts.
func (x *index) reopen(old *filelog.Log) (*filelog.Log, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.journal != old {
		return x.journal, nil
	}
	journal, err := x.openJournal()
	if err != nil {
		return nil, err
	}
	_ = old.Close() // it reports the failed sync once more
	x.journal, x.lost = journal, true
	return journal, nil
}

func (x *index) readOnly() error {
	return &filelog.Error{
		Op: "write index", Path: filepath.Join(x.a.dir, journalName),
		Err: filelog.ErrReadOnly, Fix: "open the store without ReadOnly",
	}
}

// write adds a change to the journal and applies it. The caller holds the
// index.
func (x *index) write(h *filelog.Held, c change) error {
	if err := h.Append(c.line()); err != nil {
		return err
	}
	x.dirty = true
	x.apply(c)
	x.applied = h.End()
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
	if x.journal == nil {
		return nil
	}
	size, err := x.journal.Size()
	if err != nil {
		return err
	}
	if size < x.applied {
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

// read applies the journal from x.applied to size. It does nothing if the
// journal's generation is not that of the snapshot.
func (x *index) read(size int64) error {
	if size <= x.applied {
		return nil
	}
	data := make([]byte, size-x.applied)
	if err := x.readJournal(data, x.applied); err != nil {
		return err
	}
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return nil // a line that is just being written
		}
		var c change
		err := json.Unmarshal(data[:i], &c)
		if x.applied == 0 && (err != nil || c.Generation == nil || *c.Generation != x.generation) {
			return errGeneration
		}
		if err == nil { // a torn line stands for a change that can be derived
			x.apply(c)
		}
		x.applied += int64(i) + 1
		data = data[i+1:]
	}
}

var (
	errGeneration = errors.New("the journal is not of the snapshot's generation")
	errMoved      = errors.New("the journal was emptied while it was read")
)

func (x *index) readJournal(p []byte, off int64) error {
	n, err := x.journal.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return errMoved
	}
	return x.a.d.wrap("read index", filepath.Join(x.a.dir, journalName), err, "check that this user may read it")
}

func (x *index) apply(c change) {
	switch {
	case c.Put != nil:
		if x.deleted[c.Put.ID] {
			return
		}
		row := *c.Put
		if old, ok := x.rows[row.ID]; ok {
			row.Gen = max(row.Gen, old.Gen)
			row.Key = old.Key
		}
		x.rows[row.ID] = row
		delete(x.intents, row.ID)
	case c.Intent != nil:
		delete(x.deleted, c.Intent.ID)
		x.intents[c.Intent.ID] = *c.Intent
	case c.Abort != "":
		delete(x.intents, c.Abort)
	case c.Delete != "":
		delete(x.rows, c.Delete)
		x.deleted[c.Delete] = true
	}
}

// document is the snapshot.
type document struct {
	Version    int                        `json:"version"`
	Generation int64                      `json:"generation"`
	Sessions   map[string]json.RawMessage `json:"sessions"`
}

// reload reads snapshot and journal anew. A snapshot that is no index of ours
// is kept under another name, at the next write, and made again.
func (x *index) reload() error {
	for range reloadTries { // a merge in between shows as a generation that does not fit
		data, info, err := x.a.readAll(snapshotName)
		if err != nil {
			return err
		}
		doc, rows, err := parseSnapshot(data)
		if err != nil {
			x.a.d.log.Warn("the index cannot be read and is made again from the transcripts",
				"file", filepath.Join(x.a.dir, snapshotName), "err", err)
			if err := x.setAside(); err != nil {
				return err
			}
			info, x.lost = nil, true
		}
		x.lost = x.lost || info == nil && x.snapshot != nil
		x.rows, x.intents, x.deleted = rows, map[string]driver.Row{}, map[string]bool{}
		x.generation, x.applied, x.snapshot = doc.Generation, 0, info
		if x.journal == nil {
			return nil
		}
		size, err := x.journal.Size()
		if err != nil {
			return err
		}
		journal, err := x.journalGeneration(size)
		switch {
		case errors.Is(err, errMoved), journal > x.generation && info != nil:
			continue
		case err != nil || journal < x.generation:
			return err // hold empties it
		}
		x.lost = x.lost || journal > x.generation // so the snapshot was
		x.generation = journal
		if err := x.read(size); !errors.Is(err, errMoved) {
			return err
		}
	}
	// An old copy of the snapshot was put in place of the newer one.
	x.applied, x.lost = 0, true
	return nil
}

// journalGeneration reads the first line of the journal; -1 if there is none.
func (x *index) journalGeneration(size int64) (int64, error) {
	head := make([]byte, min(size, 64))
	if err := x.readJournal(head, 0); err != nil {
		return -1, err
	}
	line, _, ok := bytes.Cut(head, []byte("\n"))
	var c change
	if !ok || json.Unmarshal(line, &c) != nil || c.Generation == nil {
		return -1, nil
	}
	return *c.Generation, nil
}

func parseSnapshot(data []byte) (document, map[string]driver.Row, error) {
	rows := map[string]driver.Row{}
	if data == nil {
		return document{}, rows, nil
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return document{}, rows, err
	}
	if doc.Version != 1 || doc.Sessions == nil {
		return document{}, rows, fmt.Errorf("not an index of version 1")
	}
	for id, raw := range doc.Sessions {
		var row driver.Row
		if json.Unmarshal(raw, &row) == nil && row.ID == id {
			rows[id] = row
		}
	}
	return doc, rows, nil
}

// setAside renames a snapshot that cannot be read, so that nothing overwrites
// it.
func (x *index) setAside() error {
	if x.a.d.opts.ReadOnly {
		return nil
	}
	name := fmt.Sprintf("%s.corrupt-%d", snapshotName, time.Now().UnixNano())
	err := x.a.root.Rename(snapshotName, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	return x.a.d.wrap("set aside index", filepath.Join(x.a.dir, snapshotName), err, "move it away by hand")
}

// merge writes the snapshot and empties the journal. The caller holds the
// index.
func (x *index) merge(h *filelog.Held) error {
	next := x.generation + 1
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "{\"version\":1,\"generation\":%d,\"sessions\":{", next)
	sep := "\n"
	for _, id := range sortedKeys(x.rows) {
		name, err := json.Marshal(id)
		if err != nil {
			return err
		}
		row, err := json.Marshal(x.rows[id])
		if err != nil {
			continue // made again from its transcript
		}
		fmt.Fprintf(&buf, "%s%s:%s", sep, name, row)
		sep = ",\n"
	}
	buf.WriteString("\n}}\n")
	if err := filelog.WriteFileAtomic(x.a.root, snapshotName, buf.Bytes(), x.a.d.opts.Sync != filelog.SyncNever); err != nil {
		return err
	}
	info, err := x.a.root.Lstat(snapshotName)
	if err != nil {
		return err
	}
	x.generation, x.snapshot = next, info
	x.applied = 0
	lines := change{Generation: &next}.line()
	for id := range x.deleted {
		if x.removeFile(id) != nil {
			lines = append(lines, change{Delete: id}.line()...)
		}
	}
	if err := h.Reset(lines); err != nil {
		return err
	}
	x.applied = h.End()
	return nil
}

func sortedKeys(m map[string]driver.Row) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
