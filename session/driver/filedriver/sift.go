package filedriver

import (
	"context"
	"io"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var _ driver.Sifter = (*Driver)(nil)

// Sift implements [driver.Sifter]. It opens the transcript for itself: a search
// through a store leaves the logs that are in use open.
func (d *Driver) Sift(ctx context.Context, ref driver.Ref, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return records(func(yield func(transcript.Record) bool) error { return d.sift(ctx, ref, keep, yield) })
}

func (d *Driver) sift(ctx context.Context, ref driver.Ref, keep driver.Keep, yield func(transcript.Record) bool) error {
	f, err := d.openToRead(ctx, ref)
	if err != nil {
		return err
	}
	defer f.close()
	in := readerAt(func(p []byte, offset int64) (int, error) {
		if err := d.enter(ctx); err != nil {
			return 0, err
		}
		defer d.ops.Done()
		return f.ReadAt(p, offset)
	})
	wanted := func(offset int64, lines []byte) bool { return keep(driver.Cursor(offset), lines) }
	opts := &transcript.ScanOptions{Final: d.opts.ReadOnly}
	for again := true; again; again = shrunk(f, &f.size, err) {
		err = siftTo(in, f.size, wanted, opts, yield)
	}
	return err
}

func siftTo(in io.ReaderAt, size int64, wanted func(int64, []byte) bool, opts *transcript.ScanOptions, yield func(transcript.Record) bool) error {
	for rec, err := range transcript.Sift(in, size, wanted, opts) {
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
