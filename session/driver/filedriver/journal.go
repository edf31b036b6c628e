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
	"strings"

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
	// Merge is the generation of a snapshot that is about to get its name.
	Merge *int64 `json:"merge,omitempty"`
	// Clean says that all rows are as their transcripts are, see trust.
	Clean *int64 `json:"clean,omitempty"`
}

// appendTo appends the line of a change.
func (c change) appendTo(dst []byte) []byte {
	switch {
	case c.Put != nil:
		dst = append(appendRow(append(dst, putHead...), c.Put), '}')
	case c.Intent != nil:
		dst = append(appendRow(append(dst, `{"intent":`...), c.Intent), '}')
	default:
		line, _ := json.Marshal(c) // never fails
		dst = append(dst, line...)
	}
	return append(dst, '\n')
}

func (c change) line() []byte { return c.appendTo(nil) }

const putHead = `{"put":`

// putText returns the row of a line that replaces one, if the line is as this
// package writes it.
func putText(line []byte) (id, text string, ok bool) {
	if !bytes.HasPrefix(line, []byte(putHead+rowHead)) || !bytes.HasSuffix(line, []byte("}}")) || !json.Valid(line) {
		return "", "", false
	}
	text = string(line[len(putHead) : len(line)-1])
	id = textID(text)
	return id, text, id != "" && strings.HasPrefix(text[len(rowHead)+len(id):], rowKey)
}

// openJournal opens the journal, and makes it if that is allowed.
func (x *index) openJournal() (*filelog.Log, error) {
	opts := &filelog.Options{Sync: filelog.SyncNever, ReadOnly: x.a.d.opts.ReadOnly, Folder: x.a.rootFile}
	x.a.observe(opts, driver.Ref{Agent: x.a.name})
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
	if x.applied == 0 {
		if generation, err := x.journalGeneration(size); err != nil {
			return err
		} else if generation != x.generation {
			return errGeneration
		}
	}
	data := make([]byte, size-x.applied)
	if err := x.readJournal(data, x.applied); err != nil {
		return err
	}
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 { // a line that is just being written, or a torn one
			if len(data) > 0 {
				x.marked = false
			}
			// A deletion that lacks its '\n' alone would come into force when
			// that is added, and take with it what was appended till then.
			var c change
			if x.lost && x.applied > 0 && json.Unmarshal(data, &c) == nil && c.Delete != "" {
				x.apply(c)
			}
			return nil
		}
		x.applyLine(data[:i])
		x.applied += int64(i) + 1
		data = data[i+1:]
	}
}

// applyLine applies a line of the journal. A torn one stands for a change that
// can be derived.
func (x *index) applyLine(line []byte) {
	x.marked = false
	if id, text, ok := putText(line); ok && x.applyText(id, text) {
		return
	}
	var c change
	if err := json.Unmarshal(line, &c); err != nil {
		x.damaged = true
	} else if !x.outdated(c) {
		x.apply(c)
	}
}

// applyText applies a row without decoding it, unless what is known of the
// session must be looked at for that.
func (x *index) applyText(id, text string) bool {
	if x.deleted[id] || x.unsaved[id] {
		return false
	}
	l := lazyRow{text: text}
	if old, ok := x.rows.find(id); ok {
		was, err := old.standing(id)
		row, err2 := l.standing(id)
		if err != nil || err2 != nil || row.Key != was.Key || row.Gen < was.Gen {
			return false
		}
	}
	x.place(id, l)
	return true
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
		bound(&row)
		if old, ok := x.rows.get(row.ID); ok {
			row.Gen = max(row.Gen, old.Gen)
			row.Key = cmp.Or(old.Key, row.Key)
		}
		x.place(row.ID, lazyRow{row: &row})
	case c.Intent != nil:
		delete(x.deleted, c.Intent.ID)
		x.intents[c.Intent.ID] = *c.Intent
	case c.Abort != "":
		delete(x.intents, c.Abort)
	case c.Delete != "":
		x.drop(c.Delete)
		delete(x.unreadable, fileName(c.Delete))
		x.deleted[c.Delete] = true
	case c.Merge != nil:
		x.merging = true
	case c.Clean != nil:
		x.marked, x.stamp = true, *c.Clean
	}
}

// place puts a row that is as its transcript is, or was when it was written.
func (x *index) place(id string, l lazyRow) {
	x.set(id, l)
	delete(x.intents, id)
	delete(x.unsaved, id)
	if x.trusted {
		x.checked[id] = true
	}
}
