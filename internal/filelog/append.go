package filelog

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// The kernel locks are polled: waiting in the kernel would keep a thread and
// could not be cancelled.
const (
	// eagerTries is how often a lock is tried again before the first sleep: others
	// hold the append lock for one write, which is shorter than any sleep.
	eagerTries = 32
	minWait    = 50 * time.Microsecond
	maxWait    = 5 * time.Millisecond
)

var (
	newline = []byte{'\n'}

	errNotLines = errors.New("not a run of lines that end in '\\n'")
)

// An extent is a range of the file; empty if both ends are equal.
type extent struct{ start, end int64 }

// cover returns the smallest extent that holds both.
func (e extent) cover(o extent) extent {
	if e.start == e.end {
		return o
	}
	if o.start == o.end {
		return e
	}
	return extent{min(e.start, o.start), max(e.end, o.end)}
}

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
// file. After any other error nothing of lines is in the file and the next
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

// TrySize returns the size of the file at a moment when nothing is being appended: every
// byte before it stays as it is. Ok is false if an append is in progress. It waits for
// nothing and writes nothing, so the file may end with an unterminated line.
func (l *Log) TrySize() (size int64, ok bool, err error) {
	const op = "read size"
	if err := l.begin(op); err != nil {
		return 0, false, err
	}
	defer l.ops.Done()
	select {
	case l.appending <- struct{}{}:
	default:
		return 0, false, nil
	}
	if ok, err = l.file().Lock(true); err != nil {
		err = l.fail(op, err)
	}
	if !ok || err != nil {
		<-l.appending
		return 0, false, err
	}
	defer l.unlock()
	now, err := l.lookup(op)
	return now.size, err == nil, err
}

// Hold takes the append lock, ends an unterminated tail without
// syncing it, and returns with the lock held: in every process, appends to the
// file wait until release is called, once. An Append on the same Log by the
// holder waits for ever. The observers are called by release.
func (l *Log) Hold(ctx context.Context) (release func(), err error) {
	return l.hold(ctx, "hold", func(ctx context.Context, op string) (written, error) { return l.settle(ctx, op) })
}

// Lock is [Log.Hold] without a look at the tail, for a file that is about to be
// removed: it writes nothing and cures nothing, so it needs no room on the disk.
// It fails with [ErrReplaced] when the name no longer refers to this file.
func (l *Log) Lock(ctx context.Context) (release func(), err error) {
	return l.hold(ctx, "lock", func(ctx context.Context, op string) (w written, err error) {
		_, err = l.lookup(op)
		return w, l.settleDebts(ctx, err)
	})
}

// hold calls do with the append lock held, and keeps the lock until release.
func (l *Log) hold(ctx context.Context, op string, do func(ctx context.Context, op string) (written, error)) (release func(), err error) {
	if err := l.begin(op); err != nil {
		return nil, err
	}
	waited, err := l.lock(ctx, op)
	if err != nil {
		l.ops.Done()
		return nil, err
	}
	w, err := do(ctx, op)
	release = func() {
		l.unlock()
		l.tell(ctx, waited, nil, w)
		l.ops.Done()
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// A written describes the changes of one call to the file.
type written struct {
	tail  int64  // the end of the tail it ended, or 0
	lines extent // its bytes
	seq   uint64 // its last write, or 0
	cured Synced // the copy or the sync it had to make first
}

// locked returns what do returns, which it calls with the append lock held. Then
// it tells the observers.
func (l *Log) locked(ctx context.Context, op string, do func() (written, error)) (w written, err error) {
	waited, err := l.lock(ctx, op)
	if err != nil {
		return w, err
	}
	defer func() {
		l.unlock()
		l.tell(ctx, waited, nil, w)
	}()
	return do()
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

// lock takes first the place within this Log, in the order of arrival, then the
// kernel's lock, and returns the time it took.
func (l *Log) lock(ctx context.Context, op string) (waited time.Duration, err error) {
	if l.opts.ReadOnly {
		return 0, l.fail(op, driver.ErrReadOnly)
	}
	began := time.Now()
	err = l.takePlace(ctx)
	if err == nil {
		if err = poll(ctx, l.ended, func() (bool, error) { return l.file().Lock(false) }); err != nil {
			<-l.appending
		}
	}
	waited = time.Since(began)
	if err != nil {
		err = l.fail(op, err)
		l.tell(ctx, waited, err, written{})
	}
	return waited, err
}

// takePlace takes the place within this Log.
func (l *Log) takePlace(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.appending <- struct{}{}:
	default:
		select {
		case l.appending <- struct{}{}:
		case <-ctx.Done():
			return busy(ctx)
		case <-l.ended:
			return ErrClosed
		}
	}
	return nil
}

// unlock gives up the kernel's lock, then the place within this Log.
func (l *Log) unlock() {
	_ = l.file().Unlock() // a held byte of an open file can be unlocked, without memory
	<-l.appending
}

// poll calls try until it succeeds or fails, the context is done, or ended is
// closed.
func poll(ctx context.Context, ended <-chan struct{}, try func() (bool, error)) error {
	wait := minWait
	for tries := 0; ; tries++ {
		if ok, err := try(); ok || err != nil {
			return err
		}
		if tries < eagerTries {
			runtime.Gosched()
			continue
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return busy(ctx)
		case <-ended:
			return ErrClosed
		}
		wait = min(wait*3/2, maxWait)
	}
}
