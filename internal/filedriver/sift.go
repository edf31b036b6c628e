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
	return records(func(yield func(transcript.Record) bool) error {
		f, err := d.openToRead(ctx, ref)
		if err != nil {
			return err
		}
		defer f.close()
		if err := f.turn(driver.Backward); err != nil {
			return err
		}
		keepLines := func(offset int64, lines []byte) bool {
			// Once the search must end, the next line is kept: scanTo returns the error
			// before it.
			return ctx.Err() != nil || d.closing.Err() != nil || keep(driver.Cursor(offset), lines)
		}
		scan := func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
			return transcript.Sift(in, size, keepLines, opts)
		}
		end := int64(-1) // of the decided lines, once that matters
		r := reading{d: d, ctx: ctx, in: f, size: f.size, yield: yield}
		return r.attempt(func() error {
			if !endsLine(f, r.size) {
				r.ask()
			}
			to := r.size
			if end >= 0 {
				to = min(end, r.size)
			}
			return r.scan(scan, 0, to, func(rec transcript.Record) (err error) {
				if end < 0 {
					end, err = r.decidedEnd()
				}
				if err != nil || rec.End > end {
					return err
				}
				end = min(end, rec.Offset)
				return r.give(rec)
			})
		})
	})
}

// decidedEnd returns the end of the last record that a backward scan yields. No line is
// decoded ahead.
func (r *reading) decidedEnd() (end int64, err error) {
	all := func(int64, []byte) bool { return true }
	sift := func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
		return transcript.Sift(in, size, all, opts)
	}
	last := reading{d: r.d, ctx: r.ctx, in: r.in, size: r.size, back: sift, yield: func(rec transcript.Record) bool {
		end = rec.End
		return false
	}}
	return end, last.backward(0)
}
