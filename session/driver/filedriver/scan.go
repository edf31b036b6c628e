package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// Scan implements [driver.Driver].
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return records(func(yield func(transcript.Record) bool) error { return d.scan(ctx, ref, from, dir, yield) })
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

func (d *Driver) scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, yield func(transcript.Record) bool) (err error) {
	in, size, end, err := d.beginScan(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	opts := &transcript.ScanOptions{From: int64(from), Final: d.opts.ReadOnly && dir != driver.Live}
	for again := true; again; again = shrunk(in, &size, err) {
		err = d.scanTo(ctx, in, size, dir, opts, yield)
	}
	return err
}

// scanTo scans the lines up to size. Forward, opts.From moves behind each line that
// was given; backward, all that was given lies behind the end if that has moved.
func (d *Driver) scanTo(ctx context.Context, in source, size int64, dir driver.Direction, opts *transcript.ScanOptions, yield func(transcript.Record) bool) error {
	if opts.From > size {
		return fmt.Errorf("%w: it has %d bytes, and %d were read before", filelog.ErrReplaced, size, opts.From)
	}
	scan := transcript.Scan
	if dir == driver.Backward {
		scan = transcript.ScanBackward
	}
	line := int64(-1)
	for rec, err := range scan(in, size, opts) {
		if err != nil {
			return err
		}
		// A loop that goes on at a cursor must have seen all records of a line
		// or none, so a closed driver ends it between two lines.
		if line >= 0 && rec.End != line {
			if err := d.enter(ctx); err != nil {
				return err
			}
			d.ops.Done()
		}
		line = rec.End
		if dir != driver.Backward {
			opts.From = line
		}
		if !yield(rec) {
			return nil
		}
	}
	return nil
}

// beginScan returns what the lines of a session are read from, in use until end
// is called with the error of the scan, and its size. It is a call of its own: Close waits for it,
// and not for the loop body between two records.
func (d *Driver) beginScan(ctx context.Context, ref driver.Ref) (in source, size int64, end func(error) error, err error) {
	for range tries {
		err = d.with(ctx, ref, func(a *agent, _ *openLog) error {
			o, err := a.acquire(ref)
			if err != nil {
				return err
			}
			if size, err = o.log.Size(); err != nil {
				return d.logs.release(o, err)
			}
			in = o.log
			end = func(err error) error { return a.cause(ref, d.logs.release(o, err)) }
			return nil
		})
		if !errors.Is(err, driver.ErrArchived) {
			break
		}
		var closed func()
		if in, size, closed, err = d.openToRead(ctx, ref); err == nil {
			return in, size, func(err error) error {
				closed()
				if errors.Is(err, filelog.ErrReplaced) {
					err = fmt.Errorf("%w: %w", driver.ErrReplaced, err)
				}
				return err
			}, nil
		}
	}
	return in, size, end, err
}

// A source is what lines are read from: a log, an open transcript or an archive.
type source interface {
	io.ReaderAt
	Size() (int64, error) // now
}

// An openFile is a transcript that was opened to be read.
type openFile struct{ *os.File }

func (f openFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// An openArchive is an archive that was opened to be read.
type openArchive struct{ *archive }

func (z openArchive) Size() (int64, error) { return z.archive.Size(), nil }

// shrunk reports whether a read has failed because the source became shorter, as it
// does when a failed append is taken back. It then sets size to what it has now.
func shrunk(in source, size *int64, err error) bool {
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	now, err := in.Size()
	if err != nil || now == *size {
		return false
	}
	*size = now
	return true
}

// openToRead opens a transcript, or the archive of one, to read as many bytes as
// it has now.
func (d *Driver) openToRead(ctx context.Context, ref driver.Ref) (in source, size int64, closed func(), err error) {
	if err := d.enter(ctx); err != nil {
		return nil, 0, nil, err
	}
	defer d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return nil, 0, nil, err
	}
	a, err := d.agent(ref.Agent, false)
	if err != nil {
		return nil, 0, nil, err
	}
	for range tries {
		f, info, err := filelog.OpenFile(a.sess, fileName(ref.ID))
		if err == nil {
			return openFile{f}, info.Size(), func() { _ = f.Close() }, nil // only read
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, nil, a.cause(ref, err)
		}
		z, zErr := a.openArchive(archiveName(ref.ID))
		if zErr == nil {
			return openArchive{z}, z.Size(), z.close, nil
		}
		if !errors.Is(zErr, fs.ErrNotExist) {
			return nil, 0, nil, zErr
		}
		if _, statErr := a.stat(ref.ID); statErr != nil {
			return nil, 0, nil, a.cause(ref, err)
		}
	}
	return nil, 0, nil, a.d.notFound(ref)
}
