package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// use returns the open log of a session for use until done is called, with the
// error that the use ended with; done returns it in terms of package driver.
func (d *Driver) use(ctx context.Context, ref driver.Ref) (o *openLog, done func(error) error, err error) {
	a, o, err := d.acquire(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	return o, func(err error) error { return a.cause(ref, d.logs.release(o, err)) }, nil
}

func (d *Driver) acquire(ctx context.Context, ref driver.Ref) (*agent, *openLog, error) {
	if err := driver.CheckRef(ref); err != nil {
		return nil, nil, err
	}
	a, err := d.agent(ctx, ref.Agent, false)
	if err != nil {
		return nil, nil, err
	}
	o, err := d.logs.acquire(ref, func() (*filelog.Log, error) { return a.openLog(ref) })
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			a.idx.lose()
		}
		return nil, nil, err
	}
	return a, o, nil
}

// cause says what an error of a log means to a caller of the driver.
func (a *agent) cause(ref driver.Ref, err error) error {
	switch {
	case errors.Is(err, filelog.ErrReplaced):
		if _, statErr := a.sess.Lstat(fileName(ref.ID)); errors.Is(statErr, fs.ErrNotExist) {
			a.idx.lose()
			return fmt.Errorf("%w: %w: %w", driver.ErrReplaced, fs.ErrNotExist, err)
		}
		return fmt.Errorf("%w: %w", driver.ErrReplaced, err)
	case errors.Is(err, filelog.ErrBusy):
		return fmt.Errorf("%w: %w", driver.ErrBusy, err)
	}
	return err
}

// with calls f with the open log of a session.
func (d *Driver) with(ctx context.Context, ref driver.Ref, f func(*openLog) error) error {
	a, o, err := d.acquire(ctx, ref)
	if err != nil {
		return err
	}
	return a.cause(ref, d.logs.release(o, f(o)))
}

// maxPooled is how large a buffer for lines is kept for the next append.
const maxPooled = 64 << 10

func (d *Driver) append(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (res driver.Result, err error) {
	if len(lines) == 0 {
		return res, errors.New("filedriver: append: no lines")
	}
	n := len(lines)
	for _, l := range lines {
		n += len(l.Data)
	}
	pooled, _ := d.lines.Get().(*[]byte)
	if pooled == nil {
		pooled = new([]byte)
	}
	buf := slices.Grow((*pooled)[:0], n)
	defer func() {
		if *pooled = buf; cap(buf) <= maxPooled {
			d.lines.Put(pooled)
		}
	}()
	for _, l := range lines {
		if slices.Contains(l.Data, '\n') || len(l.Data) == 0 {
			return res, fmt.Errorf("filedriver: append: line %s is empty or has a line break", l.ID)
		}
		buf = append(append(buf, l.Data...), '\n')
	}
	conditional := cond.Head != "" || cond.Idem != "" || len(cond.Conflicts) > 0
	err = d.with(ctx, ref, func(o *openLog) error {
		for {
			start, end, err := o.log.Append(ctx, buf, func(end int64) error {
				if !conditional {
					return nil
				}
				var err error
				if res, err = o.seen.check(o.log, o.log.Copies(), end, cond); err == nil && res.Repeated {
					return errRepeated
				}
				return err
			})
			if errors.Is(err, errRepeated) {
				if again, err := d.secure(ctx, o.log, cond, res); !again {
					return err
				}
				continue
			}
			if err == nil {
				res = driver.Result{Start: driver.Cursor(start), End: driver.Cursor(end)}
			}
			return err
		}
	})
	if err != nil {
		return driver.Result{}, err
	}
	return res, nil
}

// secure makes the lines of another append durable before an idempotent hit says
// that they are. The sync may end in a copy of the file, and lines whose own sync
// had failed may be gone by the time it is made: again is then set, and the
// caller looks for them once more.
func (d *Driver) secure(ctx context.Context, log *filelog.Log, cond driver.Cond, res driver.Result) (again bool, err error) {
	if d.opts.Sync == filelog.SyncNever {
		return false, nil
	}
	err = log.FlushAll(ctx)
	if failed, ok := errors.AsType[*filelog.NotDurableError](err); ok {
		return false, &filelog.NotDurableError{Path: failed.Path, Start: int64(res.Start), End: int64(res.End), Err: failed.Err}
	}
	if err != nil {
		return false, err
	}
	hit := keyed{hash: cond.IdemHash, ids: res.IDs, start: int64(res.Start), end: int64(res.End)}
	return !hit.stands(log, cond.Idem), nil
}

var errRepeated = errors.New("appended before")
