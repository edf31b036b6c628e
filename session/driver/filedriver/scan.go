package filedriver

import (
	"context"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
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
	scan := transcript.Scan
	if dir == driver.Backward {
		scan = transcript.ScanBackward
	}
	for rec, err := range scan(o.log, size, &transcript.ScanOptions{From: int64(from), Final: d.opts.ReadOnly}) {
		if err != nil {
			return err
		}
		if !yield(rec) {
			return nil
		}
		if err := d.ready(ctx); err != nil {
			return err
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
