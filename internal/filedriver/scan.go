package filedriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/convolog/convolog/internal/blockgzip"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Scan implements [driver.Driver].
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return records(func(yield func(transcript.Record) bool) (err error) {
		in, size, end, err := d.beginScan(ctx, ref)
		if err != nil {
			return err
		}
		defer func() { err = end(err) }()
		r := reading{d: d, ctx: ctx, in: in, size: size, yield: yield}
		if dir == driver.Backward {
			return r.backward(int64(from))
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
	if !errors.Is(err, driver.ErrArchived) {
		return in, size, end, err
	}
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
	size int64      // of the transcript, when it was opened
	row  driver.Row // of an archive; the ID may be empty
	a    *agent
	id   string // of a transcript; empty without possible writers
}

// Size implements [source].
func (o *opened) Size() (int64, error) {
	if o.ReaderAt != o.file {
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
	if o.id == "" {
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
	o := &opened{ReaderAt: file, file: file, size: info.Size(), a: a}
	if !f.archived {
		o.id = f.id
		return o, nil
	}
	fail := func(err error) error {
		return a.d.wrap("read archive", a.path(f), err, "restore the file from a copy")
	}
	if err := a.unzip(o); err != nil {
		o.close()
		return nil, fail(err)
	}
	o.ReaderAt = &failing{o.ReaderAt, fail}
	return o, nil
}

// A failing reader says with fail why it cannot be read.
type failing struct {
	io.ReaderAt
	fail func(error) error
}

// ReadAt implements [io.ReaderAt].
func (r *failing) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.fail(err)
	}
	return n, err
}

// unzip makes o what the archive holds that it was opened on.
func (a *agent) unzip(o *opened) error {
	z, err := blockgzip.Open(o.file, o.size)
	if err != nil {
		return err
	}
	o.ReaderAt, o.size = z, z.Size()
	note, err := blockgzip.ReadNote(o.file)
	if err == nil && len(note) > 0 {
		err = json.Unmarshal(note, &o.row)
	}
	if err != nil || o.row.ID == "" {
		return err
	}
	if o.row.Size != o.size {
		return fmt.Errorf("it has %d bytes of a transcript that had %d", o.size, o.row.Size)
	}
	o.row.Agent = cmp.Or(a.name, o.row.Agent)
	o.row.Archived = true
	return nil
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
