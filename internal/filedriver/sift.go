package filedriver

import (
	"cmp"
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
	return records(func(yield func(transcript.Record) bool) error {
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
			size, opts.Final = tail(ctx, f, size, f.Wait)
		}
		end, endErr := int64(0), error(nil) // of the lines that will stay, once that matters
		err = d.scanAll(ctx, scan, f, size, driver.Backward, opts, func(rec transcript.Record) bool {
			if end == 0 {
				end, endErr = d.decided(ctx, f, size, opts.Final)
			}
			return endErr == nil && (rec.End > end || yield(rec))
		})
		return cmp.Or(endErr, err)
	})
}

// decided returns the end of the lines up to size that will stay what they are.
func (d *Driver) decided(ctx context.Context, in source, size int64, final bool) (end int64, err error) {
	opts := &transcript.ScanOptions{Final: final}
	all := func(int64, []byte) bool { return true }
	last := func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
		return transcript.Sift(in, size, all, opts) // decodes no line ahead
	}
	err = d.scanDecided(ctx, last, in, size, driver.Backward, opts, func(rec transcript.Record) bool {
		end = rec.End
		return false
	})
	return end, err
}
