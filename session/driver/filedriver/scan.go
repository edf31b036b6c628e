package filedriver

import (
	"context"
	"fmt"
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
	o, size, done, err := d.beginScan(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { err = done(err) }()
	if int64(from) > size {
		return fmt.Errorf("%w: it has %d bytes, and %d were read before", filelog.ErrReplaced, size, from)
	}
	scan := transcript.Scan
	if dir == driver.Backward {
		scan = transcript.ScanBackward
	}
	line := int64(-1)
	for rec, err := range scan(o.log, size, &transcript.ScanOptions{From: int64(from), Final: d.opts.ReadOnly}) {
		if err != nil {
			return err
		}
		// Between lines, not inside one: who reads on at a cursor must have
		// seen all records of a line or none.
		if line >= 0 && rec.End != line {
			if err := d.ready(ctx); err != nil {
				return err
			}
		}
		line = rec.End
		if !yield(rec) {
			return nil
		}
	}
	return nil
}

// beginScan returns the log of a session and its size. It is a call of its
// own: Close waits for it, and not for what the loop does between two records.
func (d *Driver) beginScan(ctx context.Context, ref driver.Ref) (o *openLog, size int64, done func(error) error, err error) {
	end, err := d.begin(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	defer end()
	o, done, err = d.use(ctx, ref)
	if err != nil {
		return nil, 0, nil, err
	}
	if size, err = o.log.Size(); err != nil {
		return nil, 0, nil, done(err)
	}
	return o, size, done, nil
}
