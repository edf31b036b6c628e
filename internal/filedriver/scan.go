package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Scan implements [driver.Driver]. With keep it opens the transcript for itself: a search
// through a store leaves the logs that are in use open.
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return records(func(yield func(transcript.Record) bool) (err error) {
		begin := d.beginScan
		if keep != nil {
			begin = d.beginRead
		}
		in, size, end, err := begin(ctx, ref)
		if err != nil {
			return err
		}
		defer func() { err = end(err) }()
		r := reading{d: d, ctx: ctx, in: in, size: size, yield: yield}
		if o, ok := in.(*opened); ok {
			r.sure = o.zip != nil
			err = o.turn(dir)
		}
		switch {
		case err != nil:
			return err
		case dir == driver.Backward && keep != nil:
			return r.sift(int64(from), keep)
		case dir == driver.Backward:
			return r.backward(int64(from))
		case keep != nil:
			r.yield = func(rec transcript.Record) bool { return !driver.Keeps(keep, rec) || yield(rec) }
		}
		return r.forward(int64(from))
	})
}

// records returns what scan yields, and at the end the error of scan.
func records(scan func(yield func(transcript.Record) bool) error) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		stopped := false
		err := scan(func(rec transcript.Record) bool {
			stopped = !yield(rec, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(transcript.Record{}, err)
		}
	}
}

// endsLine reports whether the first size bytes of a transcript end with a line, or
// cannot be read, which a scan finds too.
func endsLine(r io.ReaderAt, size int64) bool {
	var last [1]byte
	if size == 0 {
		return true
	}
	n, _ := r.ReadAt(last[:], size-1)
	return n < 1 || last[0] == '\n'
}

// beginScan returns what the lines of a session are read from, in use until end
// is called with the error of the scan, and its size. It is a call of its own: Close
// waits for it, and not for the loop body between two records.
func (d *Driver) beginScan(ctx context.Context, ref driver.Ref) (in source, size int64, end func(error) error, err error) {
	err = d.on(ctx, ref, func(a *agent) error {
		o, err := a.acquire(ref)
		if err != nil {
			return err
		}
		in, end = o.log, func(err error) error { return a.cause(ref, d.logs.release(o, err)) }
		if size, err = o.log.Size(); err != nil {
			return end(err)
		}
		return nil
	})
	if errors.Is(err, driver.ErrArchived) {
		return d.beginRead(ctx, ref)
	}
	return in, size, end, err
}

// beginRead is beginScan with a file of its own.
func (d *Driver) beginRead(ctx context.Context, ref driver.Ref) (in source, size int64, end func(error) error, err error) {
	o, err := d.openToRead(ctx, ref)
	if err != nil {
		return nil, 0, nil, err
	}
	return o, o.size, func(err error) error {
		o.close()
		if errors.Is(err, filelog.ErrReplaced) {
			err = fmt.Errorf("%w: %w", driver.ErrReplaced, err)
		}
		return err
	}, nil
}

// A source of lines is a log, or a file opened to be read.
type source interface {
	io.ReaderAt
	Size() (int64, error) // now
	// TrySize returns the size at a moment when nothing is being appended; ok is false
	// if an append is in progress.
	TrySize() (size int64, ok bool, err error)
}

// An opened is a transcript or an archive that was opened to be read.
type opened struct {
	io.ReaderAt
	file *os.File
	size int64   // of the transcript, when it was opened
	zip  *zipped // nil if it is not an archive
	a    *agent
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
	l, err := o.a.acquire(driver.Ref{Agent: o.a.name, ID: o.id})
	switch {
	case errors.Is(err, driver.ErrArchived), errors.Is(err, fs.ErrNotExist):
		size, err = o.Size() // nothing is appended to a file without a name
		return size, err == nil, err
	case err != nil:
		return 0, false, err
	}
	size, ok, err = l.log.TrySize()
	return size, ok, o.a.d.logs.release(l, err)
}

func (o *opened) close() { _ = o.file.Close() } // only read

// turn prepares for reading in a direction: an archive is read forward or not from the
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
	o := &opened{ReaderAt: file, file: file, size: info.Size(), a: a, found: f}
	if !f.archived {
		return o, nil
	}
	if o.zip, err = openZip(file, info.Size()); err != nil {
		o.close()
		return nil, o.fail(err)
	}
	o.ReaderAt, o.size = o.zip, o.zip.size
	return o, nil
}

// openToRead opens the transcript of a session, or its archive.
func (d *Driver) openToRead(ctx context.Context, ref driver.Ref) (o *opened, err error) {
	err = d.on(ctx, ref, func(a *agent) error {
		for range tries {
			f, err := a.stat(ref.ID)
			if err != nil {
				return err
			}
			if o, err = a.open(f); !errors.Is(err, fs.ErrNotExist) { // else it was archived or restored in between
				return a.cause(ref, err)
			}
		}
		return d.notFound(ref)
	})
	return o, err
}
