package filedriver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

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

// log returns the journal. It is nil if it is not there and must not be made.
func (x *index) log() *filelog.Log {
	x.journalMu.Lock()
	defer x.journalMu.Unlock()
	return x.journal
}

// interrupt ends the waits for the lock of the index, now and later.
func (x *index) interrupt() {
	x.journalMu.Lock()
	defer x.journalMu.Unlock()
	x.ending = true
	if x.journal != nil {
		x.journal.Interrupt()
	}
}

// lock takes the lock of the index and says which journal it is the lock of.
func (x *index) lock(ctx context.Context) (*filelog.Held, *filelog.Log, error) {
	for {
		journal := x.log()
		if journal == nil || x.a.d.opts.ReadOnly {
			return nil, nil, x.readOnly()
		}
		h, err := journal.Hold(ctx)
		_, failed := errors.AsType[*filelog.NotDurableError](err)
		switch {
		case err == nil:
			return h, journal, nil
		case failed, errors.Is(err, filelog.ErrReplaced):
			if err := x.reopen(journal); err != nil {
				return nil, nil, err
			}
		case errors.Is(err, filelog.ErrClosed):
			if x.log() == journal {
				return nil, nil, fmt.Errorf("%w: %w", driver.ErrClosed, err)
			}
		case errors.Is(err, filelog.ErrBusy):
			return nil, nil, fmt.Errorf("%w: %w", driver.ErrBusy, err)
		default:
			return nil, nil, err
		}
	}
}

// reopen replaces a journal that could not be synced or is gone. That is no
// cure for a transcript, but what a journal says can be derived from the
// transcripts.
func (x *index) reopen(old *filelog.Log) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.replaceJournal(old)
}

// replaceJournal does so for a caller that holds x.mu.
func (x *index) replaceJournal(old *filelog.Log) error {
	x.journalMu.Lock()
	defer x.journalMu.Unlock()
	if x.journal != old {
		return nil
	}
	journal, err := x.openJournal()
	if err != nil {
		return err
	}
	if old != nil {
		old.Interrupt()
		x.old = append(x.old, old)
	}
	if journal != nil && x.ending {
		journal.Interrupt()
	}
	x.journal, x.lost = journal, true
	return nil
}

func (x *index) readOnly() error {
	return &filelog.Error{
		Op: "write index", Path: filepath.Join(x.a.dir, journalName),
		Err: filelog.ErrReadOnly, Fix: "open the store without ReadOnly",
	}
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
		var c change
		i := bytes.IndexByte(data, '\n')
		if i < 0 { // a line that is just being written, or a torn one
			// A deletion that lacks its '\n' alone would come into force when
			// that is added, and take with it what was appended till then.
			if x.lost && x.applied > 0 && json.Unmarshal(data, &c) == nil && c.Delete != "" {
				x.apply(c)
			}
			return nil
		}
		err := json.Unmarshal(data[:i], &c)
		if x.applied == 0 && (err != nil || c.Generation == nil || *c.Generation != x.generation) {
			return errGeneration
		}
		if err == nil && !x.outdated(c) { // a torn line stands for a change that can be derived
			x.apply(c)
		}
		x.applied += int64(i) + 1
		data = data[i+1:]
	}
}

// outdated reports whether a line of the journal is about less of a transcript
// than this process has read of it since: a line that a dead process left
// without its '\n' is applied when that is added.
func (x *index) outdated(c change) bool {
	if c.Put == nil || !x.unsaved[c.Put.ID] {
		return false
	}
	row, _ := x.rows.get(c.Put.ID)
	return c.Put.Size < row.Size && c.Put.Gen <= row.Gen
}

var (
	errGeneration = errors.New("the journal is not of the snapshot's generation")
	errMoved      = errors.New("the journal was emptied while it was read")

	errJournalGone = errors.New("the journal was removed again and again")
)

func (x *index) readJournal(p []byte, off int64) error {
	n, err := x.log().ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return errMoved
	}
	return x.a.d.wrap("read index", filepath.Join(x.a.dir, journalName), err, "check that this user may read it")
}

// apply changes the rows. The caller holds x.mu.
func (x *index) apply(c change) {
	switch {
	case c.Put != nil:
		if x.deleted[c.Put.ID] {
			return
		}
		row := *c.Put
		if old, ok := x.rows.get(row.ID); ok {
			row.Gen = max(row.Gen, old.Gen)
			row.Key = cmp.Or(old.Key, row.Key)
		}
		x.set(row)
		delete(x.intents, row.ID)
		delete(x.unsaved, row.ID)
	case c.Intent != nil:
		delete(x.deleted, c.Intent.ID)
		x.intents[c.Intent.ID] = *c.Intent
	case c.Abort != "":
		delete(x.intents, c.Abort)
	case c.Delete != "":
		x.drop(c.Delete)
		delete(x.unreadable, fileName(c.Delete))
		x.deleted[c.Delete] = true
	}
}
