package filelog

import (
	"context"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// lock takes the place within this Log, in the order of arrival, then the
// kernel's lock, and returns how long it took.
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
	_ = l.file().Unlock() // cannot fail: to unlock a held byte needs no memory
	<-l.appending
}

// locked calls do with the append lock held, and returns its results. Then it
// tells the observers.
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

// TrySize returns the size of the file at a moment when nothing is being appended: every
// byte before it stays as it is. Ok is false if an append is in progress. TrySize does
// not wait or write, so the file may end with an unterminated line.
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
