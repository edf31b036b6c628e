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
	scan := func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
		return transcript.Sift(in, size, func(offset int64, lines []byte) bool { return keep(driver.Cursor(offset), lines) }, opts)
	}
	return d.scanAll(ctx, scan, whileOpen{f, ctx, d}, f.size, driver.Backward, &transcript.ScanOptions{Final: d.opts.ReadOnly}, yield)
}

// whileOpen is a source that can be read while the driver is open.
type whileOpen struct {
	source
	ctx context.Context //nolint:containedctx // of the search
	d   *Driver
}

// ReadAt implements [io.ReaderAt].
func (w whileOpen) ReadAt(p []byte, offset int64) (int, error) {
	if err := w.d.enter(w.ctx); err != nil {
		return 0, err
	}
	defer w.d.ops.Done()
	return w.source.ReadAt(p, offset)
}
