package filelog

import (
	"context"
)

var newline = []byte{'\n'}

// Append adds the lines that decide returns to the end of the file as one write, and
// returns the offsets of their first byte and after their last. Each line ends with '\n'.
// Append does not retain the slice. Without lines it writes nothing, and both offsets are
// the end.
//
// First Append ends an unterminated tail: if the file does not end in '\n', a '\n' is
// added after any last line, and [Options.Observe] is called. A whole record that had lost
// its '\n' becomes readable that way, and a torn one cannot run into the next. Then Append
// calls decide with the end of the file; decide may read the lines before it and must not
// append. An error of decide is returned as it is. Until the write no other Log can append.
//
// If another Log's sync of the file has failed, Append cures the file first, as
// [Log.Recover] does.
//
// When the error is nil, the lines are in the file as [Options.Sync] promises.
// A [*driver.NotDurableError] whose Refused is not set is an unknown outcome, and
// comes with the offsets. [driver.ErrFragment] means that a part was left in the
// file. After any other error none of the lines is in the file and the next
// Append needs no repair first.
//
// The context is honoured, while waiting for the locks too, until the write
// begins and ignored from then on.
func (l *Log) Append(ctx context.Context, decide func(end int64) (lines []byte, err error)) (start, end int64, err error) {
	const op = "append"
	if err := l.begin(op); err != nil {
		return 0, 0, err
	}
	defer l.ops.Done()
	w, err := l.locked(ctx, op, func() (written, error) { return l.add(ctx, op, decide) })
	if err != nil {
		return 0, 0, err
	}
	return w.lines.start, w.lines.end, l.acknowledge(ctx, w.seq, w.lines)
}

// Hold takes the append lock, ends an unterminated tail without
// syncing it, and returns with the lock held: in every process, appends to the
// file wait until release is called, once. An Append on the same Log by the
// holder waits for ever. The observers are called by release.
func (l *Log) Hold(ctx context.Context) (release func(), err error) {
	return l.hold(ctx, "hold", func(ctx context.Context, op string) (written, error) { return l.settle(ctx, op) })
}

// Lock takes the append lock as [Log.Hold] does, and leaves the tail alone. It is for a
// file that is about to be removed, and writes no line, so it works on a full disk. If the
// name no longer refers to this file, it fails with [ErrReplaced], or with a
// [driver.NotDurableError] if acknowledged lines may be lost.
func (l *Log) Lock(ctx context.Context) (release func(), err error) {
	return l.hold(ctx, "lock", func(ctx context.Context, op string) (w written, err error) {
		_, err = l.lookup(op)
		return w, l.settleDebts(ctx, err)
	})
}

// add writes lines at the end of the file. The caller holds the append lock.
func (l *Log) add(ctx context.Context, op string, decide func(end int64) ([]byte, error)) (written, error) {
	w, err := l.settle(ctx, op)
	if err != nil {
		return w, err
	}
	start := w.lines.end
	lines, err := decide(start)
	switch {
	case err != nil:
		return w, err
	case len(lines) == 0:
		w.lines = extent{start, start}
		return w, nil
	case lines[len(lines)-1] != '\n':
		return w, l.fail(op, errNotLines)
	}
	if err := ctx.Err(); err != nil {
		return w, l.fail(op, err)
	}
	l.end = 0
	if n, err := l.file().Write(lines); err == nil {
		l.end = start + int64(n)
	} else if err = l.takeBack(op, start, n, len(lines), err); err != nil {
		return w, err
	}
	w.lines = extent{start, start + int64(len(lines))}
	w.seq = l.wrote(w.lines, lines)
	return w, nil
}

// takeBack undoes a write of size bytes at start, of which n were written
// before it failed with err. It cuts off bytes that this very write added, or
// else separates them from later lines. It returns the error of the append; nil
// if all bytes are in the file after all.
func (l *Log) takeBack(op string, start int64, n, size int, err error) error {
	info, statErr := l.file().Stat()
	switch {
	case statErr != nil && n == 0, statErr == nil && info.Size() == start:
		return l.fail(op, err)
	case statErr != nil:
		return l.fail(op, fragment(err)) // the next append fences it
	}
	ours := info.Size() == start+int64(n)
	if ours && l.file().Truncate(start) == nil {
		return l.fail(op, err)
	}
	if ours && n == size {
		return nil
	}
	_, fenceErr := l.file().Write(newline)
	if ours && n == size-1 && fenceErr == nil {
		return nil // only the last '\n' had been missing
	}
	return l.fail(op, fragment(err))
}

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

// ready makes sure, before anything is added to the file or called durable, that the
// file still has its name and that every known failed sync is cured. It returns the
// size of the file. The caller holds the append lock.
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
