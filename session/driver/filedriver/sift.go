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
	keepLines := func(offset int64, lines []byte) bool {
		// Once the search must end, the next line is kept: scanTo returns the error in front of it.
		return ctx.Err() != nil || d.closing.Err() != nil || keep(driver.Cursor(offset), lines)
	}
	scan := func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
		return transcript.Sift(in, size, keepLines, opts)
	}
	size, opts := f.size, new(transcript.ScanOptions)
	if d.opts.ReadOnly {
		size, opts.Final = tail(ctx, f, size)
	}
	return d.scanAll(ctx, scan, f, size, driver.Backward, opts, yield)
}
