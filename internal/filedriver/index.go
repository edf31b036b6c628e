package filedriver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/convolog/convolog/internal/ahead"
	"github.com/convolog/convolog/session/driver"
)

func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.forget()
	if x.lock != nil {
		err = cmp.Or(err, x.lock.Close())
	}
	return err
}

func (x *index) interrupt() {
	if x.lock != nil {
		x.lock.Interrupt()
	}
}

// forget closes the file and drops everything read from it.
func (x *index) forget() error {
	var err error
	if x.file != nil {
		err = x.file.Close()
	}
	x.file, x.info, x.applied, x.version = nil, nil, 0, 0
	x.rows, x.writers = newRows(0), map[int64]bool{}
	x.changes, x.deletes, x.erases = map[string]bool{}, map[string]bool{}, map[string]bool{}
	x.missing = map[string]*entry{}
	x.said, x.learned = folderTimes{}, learned{lost: true, news: map[string]bool{}}
	x.named.Store(false)
	return err
}

// refresh applies the lines that were written since the last call. It takes no
// lock of the kernel and writes nothing. The caller holds x.mu.
func (x *index) refresh() error {
	info, err := x.a.root.Lstat(indexName)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return x.fail("read index", err, "move it away: it is made again from the transcripts")
	}
	if x.file != nil && !gone && os.SameFile(info, x.info) && info.Size() >= x.applied {
		x.info = info
		return x.read(info.Size())
	}
	if x.file == nil && gone && x.writers != nil {
		return nil
	}
	if err := x.forget(); err != nil {
		return x.fail("read index", err, "")
	}
	x.remake = true
	if gone {
		return nil
	}
	flag := os.O_RDWR | os.O_APPEND
	if x.a.d.opts.ReadOnly {
		flag = os.O_RDONLY
	}
	if x.file, err = x.a.root.OpenFile(indexName, flag, 0); err == nil {
		x.info, err = x.file.Stat()
	}
	if err != nil {
		return errors.Join(x.fail("read index", err, "check that this user may use it"), x.forget())
	}
	x.rows = newRows(x.info.Size() / 512)
	err = x.read(x.info.Size())
	switch {
	case err != nil:
	case x.version > indexVersion:
		err = x.fail("read index", fmt.Errorf("index version %d, this program knows %d", x.version, indexVersion), "use a newer program")
	case x.version < indexVersion:
		x.rows, x.lost, x.remake = newRows(0), true, true
		x.a.d.log.Warn("the index is damaged or old and is made again from the transcripts", "file", filepath.Join(x.a.dir, indexName))
	}
	if err != nil {
		return errors.Join(err, x.forget()) // the next call reads it again
	}
	return nil
}

// chunk is how many bytes of the index are decoded at a time, unless a line is longer.
const chunk = 16 << 10

// buffers are for the bytes of an append, and for pieces of the index.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// read applies the lines from x.applied to size, which are decoded on all
// processors.
func (x *index) read(size int64) error {
	lines := ahead.Map(x.pieces(x.applied, size), ahead.Most, func(p piece) int { return len(p.text) }, x.decode)
	for l, err := range lines {
		if err != nil {
			return x.fail("read index", err, "check that this user may read it")
		}
		x.apply(l)
		x.applied = l.end
	}
	return nil
}

// A piece holds whole lines read from the index, and the offset at which they begin.
type piece struct {
	at   int64
	text []byte
}

// pieces yields the lines between two places. A last line without '\n' is being
// written, or a killed writer left it.
func (x *index) pieces(from, size int64) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		for most := int64(chunk); ; {
			pooled, _ := buffers.Get().(*[]byte)
			n := int(min(most, size-from))
			text := slices.Grow((*pooled)[:0], n)[:n]
			n, err := x.file.ReadAt(text, from)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(piece{}, err)
				return
			}
			whole := bytes.LastIndexByte(text[:n], '\n') + 1
			switch {
			case whole > 0:
				if !yield(piece{from, text[:whole]}, nil) {
					return
				}
				from, most = from+int64(whole), chunk
			case int64(n) < most: // the end, perhaps because a failed write was taken back
				return
			default:
				most *= 2
			}
		}
	}
}

// decode appends the lines of a piece, which it may reuse.
func (x *index) decode(lines []line, p piece) []line {
	at := p.at
	for text := range bytes.Lines(p.text) {
		lines = append(lines, x.decodeLine(text[:len(text)-1], at))
		at += int64(len(text))
	}
	buffers.Put(&p.text)
	return lines
}

// decodeLine decodes the line at an offset.
func (x *index) decodeLine(text []byte, at int64) line {
	l, ok := peek(text)
	if !ok {
		l, ok = peekMark(text)
	}
	switch {
	case !ok && len(text) > 0:
		l = decodeJSON(text)
	case l.row != nil:
		l.row.at += at
	}
	l.end = at + int64(len(text)) + 1
	return l
}

// apply applies a line.
func (x *index) apply(l line) {
	switch {
	case l.damaged:
		x.lost, x.remake = true, true // the transcripts contain the change it announced
	case l.Version > 0 && x.applied == 0:
		x.version = l.Version
		if x.a.name == "" { // the folder's name is hashed, see agentName
			x.a.name = l.Agent
		}
		if l.Boot != "" && l.Boot == bootID() {
			x.lost, x.remake = false, false
		}
	case l.row != nil:
		if !x.deletes[l.row.id] {
			x.set(l.row)
			delete(x.changes, l.row.id)
		}
	case l.Change != "":
		x.changes[l.Change] = true
	case l.Listed != folderTimes{}:
		x.said = l.Listed
		if !x.lost {
			x.looked = x.looked && l.Listed == x.listed
			x.listed = l.Listed
		}
	case l.Unknown != "":
		if x.find(l.Unknown) == nil {
			x.set(&entry{id: l.Unknown, size: unseen})
		}
	case l.Open != 0:
		x.writers[l.Open] = false
		if l.Open == x.by {
			x.named.Store(true)
		}
	case l.Closed != 0:
		delete(x.writers, l.Closed)
	case l.Delete != "":
		x.drop(l.Delete)
		x.deletes[l.Delete] = true
	case l.Erase != "":
		x.doubt(l.Erase)
		x.erases[l.Erase] = true
	}
}

// set adds or replaces an entry. Its session is no longer missing.
func (x *index) set(e *entry) {
	x.rows.set(e)
	delete(x.missing, e.id)
}

func (x *index) drop(id string) {
	if e := x.find(id); e != nil {
		x.del(e)
	}
	delete(x.changes, id)
	delete(x.missing, id)
}

// stored returns the row of an entry if the file or the entry holds it.
func (x *index) stored(e *entry) (row driver.Row, ok bool) {
	if e.row != nil {
		row = *e.row
		row.Labels = slices.Clone(row.Labels)
		row.Agent, row.Gen = cmp.Or(row.Agent, x.a.name), e.gen
		return row, true
	}
	text := make([]byte, e.n)
	if n, _ := x.file.ReadAt(text, e.at); n < e.n || decodeRow(text, &row) != nil || row.ID != e.id {
		return driver.Row{}, false
	}
	row.Agent, row.Gen = cmp.Or(row.Agent, x.a.name), e.gen
	return row, true
}

// bootID identifies the boot of the system, or is empty if that is unknown.
// Lines from another boot may have been lost.
var bootID = sync.OnceValue(func() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without the file the boot is unknown
	return string(bytes.TrimSpace(data))
})

// doubt has the next look at a session make its row anew.
func (x *index) doubt(id string) {
	if e := x.find(id); e != nil {
		n := *e
		n.size, n.n, n.row = unseen, 0, nil
		x.set(&n)
	}
}
