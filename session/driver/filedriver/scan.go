package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// Scan implements [driver.Driver].
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		stopped := false
		err := d.scan(ctx, ref, from, dir, func(rec transcript.Record) bool {
			stopped = !yield(rec, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(transcript.Record{}, err)
		}
	}
}

func (d *Driver) scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, yield func(transcript.Record) bool) (err error) {
	in, end, err := d.beginScan(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	scan := transcript.Scan
	if dir == driver.Backward {
		scan = transcript.ScanBackward
	}
	var closed error
	line := int64(-1)
	err = in.records(int64(from), dir, func(from, size int64) iter.Seq2[transcript.Record, error] {
		return scan(in, size, &transcript.ScanOptions{From: from, Final: d.opts.ReadOnly && dir != driver.Live})
	}, func(rec transcript.Record) bool {
		// A loop that goes on at a cursor must have seen all records of a line
		// or none, so a closed driver ends it between two lines.
		if line >= 0 && rec.End != line {
			if closed = d.enter(ctx); closed != nil {
				return false
			}
			d.ops.Done()
		}
		line = rec.End
		return yield(rec)
	})
	return errors.Join(closed, err)
}

// beginScan returns what the lines of a session are read from, in use until end
// is called with the error of the scan. It is a call of its own: Close waits for it,
// and not for the loop body between two records.
func (d *Driver) beginScan(ctx context.Context, ref driver.Ref) (in source, end func(error) error, err error) {
	for range tries {
		err = d.with(ctx, ref, func(a *agent, _ *openLog) error {
			o, err := a.acquire(ref)
			if err != nil {
				return err
			}
			size, err := o.log.Size()
			if err != nil {
				return d.logs.release(o, err)
			}
			in = source{ReaderAt: o.log, size: size, resize: o.log.Size}
			end = func(err error) error { return a.cause(ref, d.logs.release(o, err)) }
			return nil
		})
		if !errors.Is(err, driver.ErrArchived) {
			break
		}
		if in, err = d.openToRead(ctx, ref); err == nil {
			return in, func(err error) error {
				in.close()
				if errors.Is(err, filelog.ErrReplaced) {
					err = fmt.Errorf("%w: %w", driver.ErrReplaced, err)
				}
				return err
			}, nil
		}
	}
	return in, end, err
}

// A source is what lines are read from: a transcript, or the archive of one.
type source struct {
	io.ReaderAt
	size   int64                 // when it was opened
	resize func() (int64, error) // what it is now; nil if it stays the same
	close  func()
}

// records gives yield the records of a scan of all lines from a place on. The
// source may become shorter meanwhile, when a failed append is taken back: the
// scan then goes on with what is left. scan is called with the place of its first
// line and the size.
func (in source) records(from int64, dir driver.Direction, scan func(from, size int64) iter.Seq2[transcript.Record, error], yield func(transcript.Record) bool) (err error) {
	size := in.size
	for range tries {
		if from > size {
			return fmt.Errorf("%w: it has %d bytes, and %d were read before", filelog.ErrReplaced, size, from)
		}
		err = nil
		for rec, scanErr := range scan(from, size) {
			if err = scanErr; err != nil {
				break
			}
			if !yield(rec) {
				return nil
			}
			if dir != driver.Backward { // backward, all that was read lies behind the new end
				from = rec.End
			}
		}
		if in.resize == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		var sizeErr error
		if size, sizeErr = in.resize(); sizeErr != nil {
			return sizeErr
		}
	}
	return err
}

// openToRead opens a transcript, or the archive of one. The caller closes it.
func (d *Driver) openToRead(ctx context.Context, ref driver.Ref) (source, error) {
	if err := d.enter(ctx); err != nil {
		return source{}, err
	}
	defer d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return source{}, err
	}
	a, err := d.agent(ref.Agent, false)
	if err != nil {
		return source{}, err
	}
	for range tries {
		f, info, err := filelog.OpenFile(a.sess, fileName(ref.ID))
		if err == nil {
			resize := func() (int64, error) {
				info, err := f.Stat()
				if err != nil {
					return 0, err
				}
				return info.Size(), nil
			}
			return source{f, info.Size(), resize, func() { _ = f.Close() }}, nil // only read
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return source{}, a.cause(ref, err)
		}
		z, zErr := a.openArchive(archiveName(ref.ID))
		if zErr == nil {
			return source{ReaderAt: z, size: z.Size(), close: z.close}, nil
		}
		if !errors.Is(zErr, fs.ErrNotExist) {
			return source{}, zErr
		}
		if _, statErr := a.stat(ref.ID); statErr != nil {
			return source{}, a.cause(ref, err)
		}
	}
	return source{}, a.d.notFound(ref)
}
