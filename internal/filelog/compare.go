package filelog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/convolog/convolog/session/driver"
)

// compare looks for this Log's unsynced lines in the file that took the name,
// after a sync of its own with the outcome err. Lines that are there, in a copy
// that is sound, are on stable storage. A difference is a failed sync. It reports
// false if there is nothing to compare: a file that was removed, or replaced by
// something else, has no obligations. It waits for the lock of that file without
// a limit: giving up would call lines lost that a slow copy contains, and only
// the copy can tell. The caller leads and holds l.mu, which is released while it
// waits.
func (l *Log) compare(err error) bool {
	lines, seq, dirty := l.unsynced, l.written, l.dirty
	if len(lines.parts) == 0 {
		return false
	}
	l.mu.Unlock()
	next, holds, nextErr := l.successor(context.Background(), "compare", lines)
	if nextErr == nil {
		_ = next.Unlock()
		_ = next.Close() // only read
	}
	l.mu.Lock()
	switch {
	case errors.Is(nextErr, ErrReplaced):
		return false
	case holds:
		l.synced, l.dirty = seq, extent{}
		l.unsynced.drop(lines)
	default:
		err = cmp.Or(err, nextErr, errors.New("a copy has taken the file's place, and lacks them"))
		l.failed = &driver.NotDurableError{Path: l.path, Start: dirty.start, End: dirty.end, Err: cause(err)}
	}
	return true
}

// successor opens the file that has the name of this Log's file now and takes
// its append lock, which a copy in progress holds to its end. It reports whether
// the file is sound and holds lines. It fails with [ErrReplaced] if the file is
// not a copy of this Log's.
func (l *Log) successor(ctx context.Context, op string, lines unsynced) (next *opened, holds bool, err error) {
	for {
		next, err := openNamed(l.root, l.name, &l.opts)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrReplaced) || err == nil && !l.isCopy(next) {
			if err == nil {
				_ = next.Close() // only read
			}
			return nil, false, l.fail(op, ErrReplaced)
		}
		if err != nil {
			return nil, false, l.fail(op, err)
		}
		// Close interrupts waits, and must learn the fate of its lines.
		err = poll(ctx, nil, func() (bool, error) { return next.Lock(false) })
		if err == nil {
			var now look
			if now, err = next.Lookup(); err == nil {
				holds = !now.marked && contains(next, lines)
				return next, holds, nil
			}
		}
		_ = next.Close() // and its lock with it
		if !errors.Is(err, ErrReplaced) {
			return nil, false, l.fail(op, err)
		}
	}
}

// isCopy reports whether another file begins with the line that this Log's
// begins with, which was durable before the file was known.
func (l *Log) isCopy(next *opened) bool {
	own := l.current.Load()
	first := head(own)
	return !os.SameFile(own.id, next.id) && len(first) > 0 && bytes.Equal(first, head(next))
}

// head returns the first line of a file, or the beginning of a long one.
func head(f io.ReaderAt) []byte {
	b := make([]byte, headSize)
	n, _ := f.ReadAt(b, 0)
	if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
		n = i + 1
	}
	return b[:n]
}

const headSize = 4 << 10 // bytes at the beginning in which two files are compared
