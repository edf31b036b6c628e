package filedriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/convolog/convolog/session/driver"
)

// Append implements [driver.Driver], once the index names this process as a writer.
func (d *Driver) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (res driver.Result, err error) {
	err = d.with(ctx, ref, func(a *agent, o *openLog) (err error) {
		if !a.idx.named.Load() {
			err = a.idx.openWriter(ctx)
		}
		if err == nil {
			res, err = d.appendTo(ctx, o, lines, at, decide)
		}
		return err
	})
	return res, err
}

// maxPooled is the size of the largest buffer kept for the next append.
const maxPooled = 64 << 10

// appendTo is Append to an open log.
func (d *Driver) appendTo(
	ctx context.Context, o *openLog, lines []driver.Line, at driver.Cursor,
	decide func(context.Context, driver.Cursor) ([]driver.Line, error),
) (driver.Result, error) {
	pooled, _ := buffers.Get().(*[]byte)
	buf, err := appendLines((*pooled)[:0], lines)
	if *pooled = buf; cap(buf) <= maxPooled {
		defer buffers.Put(pooled)
	}
	if err != nil {
		return driver.Result{}, err
	}
	start, end, err := o.log.Append(ctx, func(end int64) ([]byte, error) {
		elsewhere := at >= 0 && int64(at) != end
		switch {
		case decide != nil && (elsewhere || len(lines) == 0):
			decided, err := decide(ctx, driver.Cursor(end))
			if err != nil {
				return nil, err
			}
			return appendLines(nil, decided)
		case elsewhere && len(lines) > 0:
			return nil, driver.ErrConflict
		}
		return buf, nil
	})
	return driver.Result{Start: driver.Cursor(start), End: driver.Cursor(end)}, err
}

// appendLines appends lines to dst, each with its line break.
func appendLines(dst []byte, lines []driver.Line) ([]byte, error) {
	for _, l := range lines {
		if bytes.IndexByte(l.Data, '\n') >= 0 || len(l.Data) == 0 {
			return dst, fmt.Errorf("filedriver: append: line %s is empty or has a line break", l.ID)
		}
		dst = append(append(dst, l.Data...), '\n')
	}
	return dst, nil
}

// Flush implements [driver.Driver]. An archive is on stable storage already. But
// after a failed sync it may lack lines that this process had written.
func (d *Driver) Flush(ctx context.Context, ref driver.Ref, cure bool) error {
	err := d.with(ctx, ref, func(_ *agent, o *openLog) error {
		if cure {
			return o.log.Recover(ctx)
		}
		return o.log.Flush(ctx)
	})
	if _, failed := errors.AsType[*driver.NotDurableError](err); errors.Is(err, driver.ErrArchived) && !failed {
		return nil
	}
	return err
}
