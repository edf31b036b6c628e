package filelog

import (
	"context"
)

// settle ends an unterminated tail, after [Log.ready]. The caller holds the append lock.
// The extent it returns is the '\n', or the empty one at the end of the file.
func (l *Log) settle(ctx context.Context, op string) (w written, err error) {
	end, err := l.ready(ctx, op, &w.cured)
	if err != nil {
		return w, err
	}
	w.lines = extent{end, end}
	if end == 0 || end == l.end { // as this Log left it
		return w, nil
	}
	if n, err := l.file().ReadAt(l.last[:], end-1); n < 1 {
		return w, l.fail(op, err)
	}
	if l.last[0] == '\n' {
		l.end = end
		return w, nil
	}
	if n, err := l.file().Write(newline); n < 1 {
		return w, l.fail(op, err)
	}
	w.tail = end
	w.lines.end++
	w.seq = l.wrote(w.lines, newline)
	return w, nil
}

// ready makes sure, before anything is added to the file or said to be durable, that it
// still has its name and that no known sync of it has failed without a cure. It returns
// the size of the file. The caller holds the append lock.
func (l *Log) ready(ctx context.Context, op string, s *Synced) (size int64, err error) {
	if failed := l.Failed(); failed != nil {
		return 0, refusal(failed)
	}
	now, err := l.lookup(op)
	if err != nil {
		return 0, l.settleDebts(ctx, err)
	}
	if !now.marked {
		return now.size, nil
	}
	if *s, err = l.cure(ctx, op, false); err != nil {
		return 0, err
	}
	now, err = l.lookup(op)
	return now.size, err
}
