package filedriver

import (
	"context"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
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
	in, err := d.openToRead(ctx, ref)
	if err != nil {
		return err
	}
	defer in.close()
	content := in.ReaderAt
	in.ReaderAt = readerAt(func(p []byte, offset int64) (int, error) {
		if err := d.enter(ctx); err != nil {
			return 0, err
		}
		defer d.ops.Done()
		return content.ReadAt(p, offset)
	})
	wanted := func(offset int64, lines []byte) bool { return keep(driver.Cursor(offset), lines) }
	return in.records(0, driver.Backward, func(_, size int64) iter.Seq2[transcript.Record, error] {
		return transcript.Sift(in, size, wanted, &transcript.ScanOptions{Final: d.opts.ReadOnly})
	}, yield)
}

// readerAt is a function as an [io.ReaderAt].
type readerAt func(p []byte, offset int64) (int, error)

func (f readerAt) ReadAt(p []byte, offset int64) (int, error) { return f(p, offset) }
