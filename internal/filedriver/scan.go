package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Scan implements [driver.Driver]. With keep it opens the transcript for itself, so that
// a search through a store closes none of the open logs.
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return records(func(yield func(transcript.Record) bool) (err error) {
		begin := d.beginScan
		if keep != nil {
			begin = d.beginRead
		}
		in, size, end, err := begin(ctx, ref)
		if err != nil {
			return err
		}
		defer func() { err = end(err) }()
		r := reading{d: d, ctx: ctx, in: in, size: size, yield: yield}
		if o, ok := in.(*opened); ok {
			r.sure = o.zip != nil
			err = o.turn(dir)
		}
		switch {
		case err != nil:
			return err
		case dir == driver.Backward && keep != nil:
			return r.sift(int64(from), keep)
		case dir == driver.Backward:
			return r.backward(int64(from))
		case keep != nil:
			r.yield = func(rec transcript.Record) bool { return !driver.Keeps(keep, rec) || yield(rec) }
		}
		return r.forward(int64(from))
	})
}

// records returns the records of scan, and at the end its error.
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

// beginScan returns the source of a session's lines and its size. The source is in
// use until end is called with the error of the scan. Close waits for beginScan, but
// not for the loop body between two records.
func (d *Driver) beginScan(ctx context.Context, ref driver.Ref) (in source, size int64, end func(error) error, err error) {
	err = d.on(ctx, ref, func(a *agent) error {
		o, err := a.acquire(ref)
		if err != nil {
			return err
		}
		in, end = o.log, func(err error) error { return a.cause(ref, d.logs.release(o, err)) }
		if size, err = o.log.Size(); err != nil {
			return end(err)
		}
		return nil
	})
	if errors.Is(err, driver.ErrArchived) {
		return d.beginRead(ctx, ref)
	}
	return in, size, end, err
}

// beginRead is beginScan with a file of its own.
func (d *Driver) beginRead(ctx context.Context, ref driver.Ref) (in source, size int64, end func(error) error, err error) {
	var o *opened
	err = d.on(ctx, ref, func(a *agent) error {
		for range tries {
			f, err := a.stat(ref.ID)
			if err != nil {
				return err
			}
			if o, err = a.open(f); errors.Is(err, fs.ErrNotExist) {
				continue // it was just archived or restored
			}
			if err == nil && o.zip != nil && d.mark(ref) != o.zip.mark { // else it has the bytes of the known transcript
				if err = d.identify(ref, o.zip, func() { d.setMark(ref, o.zip.mark) }); err != nil {
					o.close()
				}
			}
			return a.cause(ref, err)
		}
		return d.notFound(ref)
	})
	if err != nil {
		return nil, 0, nil, err
	}
	return o, o.size, func(err error) error {
		o.close()
		if errors.Is(err, filelog.ErrReplaced) {
			err = fmt.Errorf("%w: %w", driver.ErrReplaced, err)
		}
		return err
	}, nil
}
