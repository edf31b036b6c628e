package filedriver

import (
	"context"
	"iter"
	"os"

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
	f, size, err := d.openToRead(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
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

// openToRead opens a transcript to read as many bytes as it has now.
func (d *Driver) openToRead(ctx context.Context, ref driver.Ref) (f *os.File, size int64, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return nil, 0, err
	}
	a, err := d.agent(ref.Agent, false)
	if err != nil {
		return nil, 0, err
	}
	f, info, err := filelog.OpenFile(a.sess, fileName(ref.ID))
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}
