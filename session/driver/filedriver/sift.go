package filedriver

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

var _ driver.Sifter = (*Driver)(nil)

// Sift implements [driver.Sifter]. It opens the transcript for itself: a search
// through a store leaves the logs that are in use open.
func (d *Driver) Sift(ctx context.Context, ref driver.Ref, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		stopped := false
		err := d.sift(ctx, ref, keep, func(rec transcript.Record) bool {
			stopped = !yield(rec, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(transcript.Record{}, err)
		}
	}
}

func (d *Driver) sift(ctx context.Context, ref driver.Ref, keep driver.Keep, yield func(transcript.Record) bool) error {
	f, size, closed, err := d.openToRead(ctx, ref)
	if err != nil {
		return err
	}
	defer closed()
	in := readerAt(func(p []byte, offset int64) (int, error) {
		if err := d.enter(ctx); err != nil {
			return 0, err
		}
		defer d.ops.Done()
		return f.ReadAt(p, offset)
	})
	wanted := func(offset int64, lines []byte) bool { return keep(driver.Cursor(offset), lines) }
	for rec, err := range transcript.Sift(in, size, wanted, &transcript.ScanOptions{Final: d.opts.ReadOnly}) {
		if err != nil {
			return err
		}
		if !yield(rec) {
			return nil
		}
	}
	return nil
}

// readerAt is a function as an [io.ReaderAt].
type readerAt func(p []byte, offset int64) (int, error)

func (f readerAt) ReadAt(p []byte, offset int64) (int, error) { return f(p, offset) }

// openToRead opens a transcript, or the archive of one, to read as many bytes as
// it has now.
func (d *Driver) openToRead(ctx context.Context, ref driver.Ref) (r io.ReaderAt, size int64, closed func(), err error) {
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
			return f, info.Size(), func() { _ = f.Close() }, nil // only read
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, nil, a.cause(ref, err)
		}
		z, zErr := a.openArchive(archiveName(ref.ID))
		if zErr == nil {
			return z, z.Size(), z.close, nil
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
