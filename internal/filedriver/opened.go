package filedriver

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// errNoHeader reports a transcript whose key is unknown.
var errNoHeader = errors.New("its header cannot be read")

func noHeader(err error) error {
	if err == nil {
		return errNoHeader
	}
	return fmt.Errorf("%w: %w", errNoHeader, err)
}

// A source of lines is a log, or a file opened for reading.
type source interface {
	io.ReaderAt
	Size() (int64, error) // now
	// TrySize returns the size at a moment when nothing is being appended; ok is false
	// if an append is in progress.
	TrySize() (size int64, ok bool, err error)
}

// An opened is a transcript or an archive that was opened to be read. Its size is the one of
// the transcript when it was opened: set by open and read.
type opened struct {
	io.ReaderAt // set by open and turn
	file        *os.File
	zip         *zipped // nil if it is not an archive
	a           *agent
	found
}

// Size implements [source].
func (o *opened) Size() (int64, error) {
	if o.zip != nil {
		return o.size, nil
	}
	info, err := o.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// TrySize implements [source].
func (o *opened) TrySize() (size int64, ok bool, err error) {
	if o.zip != nil {
		return o.size, true, nil
	}
	return filelog.TrySize(o.file)
}

func (o *opened) close() { _ = o.file.Close() } // only read

// turn prepares for reading in a direction: only forward is an archive read from its
// file.
func (o *opened) turn(dir driver.Direction) error {
	if o.zip == nil || dir == driver.Forward {
		return nil
	}
	content, err := o.zip.load()
	if err != nil {
		return o.fail(err)
	}
	o.ReaderAt = content
	return nil
}

// ReadAt implements [io.ReaderAt].
func (o *opened) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.ReaderAt.ReadAt(p, off)
	if o.zip != nil && err != nil && !errors.Is(err, io.EOF) {
		err = o.fail(err)
	}
	return n, err
}

func (o *opened) fail(err error) error {
	return o.a.d.wrap("read archive", o.a.path(o.found), err, "restore the file from a copy")
}

// open opens a transcript or an archive.
func (a *agent) open(f found) (*opened, error) {
	root := a.sess
	if f.archived {
		root = a.root
	}
	file, info, err := filelog.OpenFile(root, f.file)
	if err != nil {
		return nil, err
	}
	o := &opened{ReaderAt: file, file: file, a: a, found: f}
	if o.size = info.Size(); !f.archived {
		return o, nil
	}
	if o.zip, err = openZip(file, info.Size()); err != nil {
		o.close()
		return nil, o.fail(err)
	}
	o.ReaderAt, o.size = o.zip, o.zip.size
	return o, nil
}

// endsLine reports whether the first size bytes of a transcript end with a line. If
// they cannot be read it reports true: a scan finds that too.
func endsLine(r io.ReaderAt, size int64) bool {
	var last [1]byte
	if size == 0 {
		return true
	}
	n, _ := r.ReadAt(last[:], size-1)
	return n < 1 || last[0] == '\n'
}

// wholeLines returns the end of the last whole line before size, so that the next
// reading begins with a line.
func wholeLines(r io.ReaderAt, size int64) int64 {
	if endsLine(r, size) {
		return size
	}
	for rec, err := range transcript.ScanBackward(r, size, nil) {
		if err != nil {
			return size // the caller finds the error too
		}
		return rec.End
	}
	return 0
}

// read calls do with a transcript. It includes a last line that a dead writer left
// without '\n': that line may make the session current.
func (a *agent) read(f found, do func(o *opened, scan Scan) error) error {
	o, err := a.open(f)
	if err != nil {
		return noHeader(err)
	}
	defer o.close()
	final := o.zip != nil
	if !final && !endsLine(o, o.size) {
		if size, ok, err := o.TrySize(); ok && err == nil {
			o.size, final = size, true
		} else {
			o.size = wholeLines(o, o.size)
		}
	}
	return do(o, func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		if err := o.turn(dir); err != nil {
			return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, err) }
		}
		opts := &transcript.ScanOptions{From: int64(from), Final: final}
		if dir == driver.Backward {
			return transcript.ScanBackward(o, o.size, opts)
		}
		return transcript.Scan(o, o.size, opts)
	})
}

// archivedSize returns the size of the transcript in an archive.
func (a *agent) archivedSize(f found) (int64, error) {
	o, err := a.open(f)
	if err != nil {
		return 0, err
	}
	o.close()
	return o.size, nil
}
