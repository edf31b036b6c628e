package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// idemWindow is how many lines back an idempotency key is looked for.
const idemWindow = 1024

// with calls f with the open log of a session.
func (d *Driver) with(ref driver.Ref, f func(*filelog.Log) error) error {
	if err := driver.CheckRef(ref); err != nil {
		return err
	}
	a, err := d.agent(ref.Agent, false)
	if err != nil {
		return err
	}
	o, err := d.logs.acquire(ref, func() (*filelog.Log, error) { return a.openLog(ref) })
	if err != nil {
		return err
	}
	err = f(o.log)
	if closeErr := d.logs.release(o, err); err == nil {
		err = closeErr
	}
	switch {
	case errors.Is(err, filelog.ErrReplaced):
		if _, statErr := a.sess.Lstat(fileName(ref.ID)); errors.Is(statErr, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w: %w", driver.ErrReplaced, fs.ErrNotExist, err)
		}
		return fmt.Errorf("%w: %w", driver.ErrReplaced, err)
	case errors.Is(err, filelog.ErrBusy):
		return fmt.Errorf("%w: %w", driver.ErrBusy, err)
	}
	return err
}

func (d *Driver) append(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (res driver.Result, err error) {
	if len(lines) == 0 {
		return res, errors.New("filedriver: append: no lines")
	}
	n := len(lines)
	for _, l := range lines {
		n += len(l.Data)
	}
	buf := make([]byte, 0, n)
	for _, l := range lines {
		if slices.Contains(l.Data, '\n') || len(l.Data) == 0 {
			return res, fmt.Errorf("filedriver: append: line %s is empty or has a line break", l.ID)
		}
		buf = append(append(buf, l.Data...), '\n')
	}
	err = d.with(ref, func(l *filelog.Log) error {
		start, end, err := l.Append(ctx, buf, func(end int64) error {
			if cond.Head == "" && cond.Idem == "" && len(cond.Conflicts) == 0 {
				return nil
			}
			var err error
			if res, err = checkCond(l, end, cond); err == nil && res.Repeated {
				return errRepeated
			}
			return err
		})
		if errors.Is(err, errRepeated) {
			// The lines are another append's: they must be durable before this
			// one says that they are.
			return l.Flush(ctx)
		}
		if err == nil {
			res = driver.Result{Start: driver.Cursor(start), End: driver.Cursor(end)}
		}
		return err
	})
	if err != nil {
		return driver.Result{}, err
	}
	return res, nil
}

var errRepeated = errors.New("appended before")

// checkCond looks at the lines before end, under the append lock.
func checkCond(l *filelog.Log, end int64, cond driver.Cond) (driver.Result, error) {
	if cond.Idem != "" {
		if res, err := findIdem(l, end, cond); err != nil || res.Repeated {
			return res, err
		}
	}
	if cond.Head != "" {
		head, err := findHead(l, end)
		if err != nil {
			return driver.Result{}, err
		}
		if head != cond.Head {
			return driver.Result{}, fmt.Errorf("head is %q, not %q: %w", head, cond.Head, driver.ErrConflict)
		}
	}
	if len(cond.Conflicts) > 0 {
		scan := transcript.Scan(l, end, &transcript.ScanOptions{From: int64(cond.Base), Final: true})
		for rec, err := range scan {
			if err != nil {
				return driver.Result{}, err
			}
			if rec.Damage == nil && slices.Contains(cond.Conflicts, rec.Entry.Type()) {
				return driver.Result{}, fmt.Errorf("a %s entry was added: %w", rec.Entry.Type(), driver.ErrConflict)
			}
		}
	}
	return driver.Result{}, nil
}

func backward(l *filelog.Log, end int64) iter.Seq2[transcript.Record, error] {
	return transcript.ScanBackward(l, end, &transcript.ScanOptions{Final: true})
}

func findHead(l *filelog.Log, end int64) (string, error) {
	for rec, err := range backward(l, end) {
		if err != nil {
			return "", err
		}
		if rec.Damage == nil && transcript.IsHead(rec.Entry.Type()) {
			return rec.Entry.ID, nil
		}
	}
	return driver.NoHead, nil
}

// findIdem looks for a whole batch that starts with the key.
func findIdem(l *filelog.Log, end int64, cond driver.Cond) (driver.Result, error) {
	var after []transcript.Record // the records behind the one looked at, latest first
	for rec, err := range backward(l, end) {
		if err != nil {
			return driver.Result{}, err
		}
		if rec.Damage == nil && rec.Entry.Idem == cond.Idem {
			if ids, last, ok := wholeBatch(rec, after); ok {
				if rec.Entry.IdemHash != cond.IdemHash {
					return driver.Result{}, driver.ErrIdemMismatch
				}
				return driver.Result{Start: driver.Cursor(rec.Offset), End: driver.Cursor(last), Repeated: true, IDs: ids}, nil
			}
		}
		after = append(after, rec)
		if len(after) > 2*idemWindow {
			return driver.Result{}, nil
		}
	}
	return driver.Result{}, nil
}

func wholeBatch(first transcript.Record, after []transcript.Record) (ids []string, end int64, ok bool) {
	ids, end = []string{first.Entry.ID}, first.End
	for part := 2; part <= first.Entry.Batch; part++ {
		i := len(after) - part + 1
		if i < 0 || after[i].Damage != nil || after[i].Entry.Part != part {
			return nil, 0, false
		}
		ids, end = append(ids, after[i].Entry.ID), after[i].End
	}
	return ids, end, true
}

// Scan implements [driver.Driver].
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		end, err := d.begin(ctx)
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		defer end()
		stopped := false
		err = d.with(ref, func(l *filelog.Log) error {
			size, err := l.Size()
			if err != nil {
				return err
			}
			scan := transcript.Scan
			if dir == driver.Backward {
				scan = transcript.ScanBackward
			}
			for rec, err := range scan(l, size, &transcript.ScanOptions{From: int64(from), Final: d.opts.ReadOnly}) {
				if err != nil {
					return err
				}
				if !yield(rec, nil) {
					stopped = true
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(transcript.Record{}, err)
		}
	}
}
