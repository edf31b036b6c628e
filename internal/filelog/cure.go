package filelog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/convolog/convolog/session/driver"
)

const (
	copyChunk = 1 << 20 // bytes that a copy holds in memory
	headSize  = 4 << 10 // bytes at the beginning in which two files are compared
)

var errOthers = errors.New("lines that this log wrote have been replaced by other bytes")

// Recover makes a Log whose sync failed usable again. On one that has not
// failed it is [Log.Flush].
//
// When the error is nil, everything this Log has ever acknowledged is on stable
// storage, and so is everything else that is in the file now. That includes the
// lines of the calls that failed: each batch is there whole or not at all, and a
// caller that must know appends it again under a condition. Calls that still
// waited for the failed sync return nil.
//
// Neither syncing again nor writing the same bytes again would do: the kernel calls
// pages clean that it could not write, and an extent can stay unwritten below a page
// that reads well. Recover therefore copies the whole file to blocks of its own,
// through memory, with this Log's unsynced lines laid over the content of the file.
// It syncs the copy, gives it the file's name and syncs the folder. This Log
// continues in the copy; the package comment covers other Logs of the old file.
//
// Under [driver.SyncNever] a Log keeps no lines in memory, and the copy is as good as
// the page cache.
//
// After an error the Log is as it was, and Recover may be called again; the
// error has the number of bytes for a copy. The context is honoured until the
// copy begins.
func (l *Log) Recover(ctx context.Context) error {
	const op = "recover"
	if l.Failed() == nil && !l.opts.ReadOnly {
		return l.flush(ctx, op)
	}
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	w, err := l.locked(ctx, op, func() (written, error) {
		s, err := l.cure(ctx, op, true)
		return written{cured: s}, err
	})
	if err != nil || w.cured.Bytes > 0 { // all of a copy of its own is on stable storage
		return err
	}
	return l.flush(ctx, op)
}

// cure replaces the file by a copy, or finds that another Log has done so.
// recovering is set if the Log may have failed. The caller holds the append
// lock.
func (l *Log) cure(ctx context.Context, op string, recovering bool) (s Synced, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.lead(ctx); err != nil {
		return s, &Error{Op: op, Path: l.path, Fix: "the log still refuses appends, recover it again once the cause is gone", Err: err}
	}
	defer func() { <-l.leading }()
	switch {
	case recovering && l.failed == nil:
		return s, nil // another call has just recovered it
	case !recovering && l.failed != nil:
		return s, refusal(l.failed)
	}
	lines := l.unsynced // unchanged: no other call appends or leads
	l.mu.Unlock()
	began := time.Now()
	size, err := l.place(ctx, op, lines)
	s = Synced{Took: since(began), Bytes: size, Err: cause(err)}
	l.mu.Lock()
	if err != nil {
		// A copy whose name may not survive a power cut has the name already.
		// Lines of this Log that it owes must not be taken for safe there.
		if _, moved := errors.AsType[*driver.NotDurableError](err); moved && l.failed == nil && len(lines.parts) > 0 {
			l.failed = &driver.NotDurableError{Path: l.path, Start: lines.parts[0].off, End: lines.end(), Err: s.Err}
		}
		return s, err
	}
	l.failed, l.synced, l.dirty = nil, l.written, extent{}
	l.unsynced.drop(l.unsynced)
	return s, nil
}

// place moves the Log to a sound file with lines: the present file of the name,
// if it is another Log's copy and can be trusted, or one it makes.
func (l *Log) place(ctx context.Context, op string, lines unsynced) (size int64, err error) {
	if _, err = l.lookup(op); errors.Is(err, ErrReplaced) {
		next, holds, err := l.successor(ctx, op, lines)
		if err != nil {
			return 0, err
		}
		l.swap(next)
		if holds {
			return 0, nil
		}
	}
	return l.copyOver(op, lines) // which also looks the name up
}

// copyOver gives the file's name to a copy that is on stable storage, and
// continues in it. It holds the append locks of both.
func (l *Log) copyOver(op string, lines unsynced) (size int64, err error) {
	now, err := l.lookup(op)
	if err != nil {
		return 0, err
	}
	old := l.current.Load()
	size = max(now.size, lines.end())
	t, err := l.succeed(func(t *tempFile) error { return copyLines(t, old, size, lines) }, true)
	switch {
	case err == nil:
		return size, nil
	case t != nil:
		return 0, &driver.NotDurableError{Path: l.path, End: size, Refused: true, Err: cause(err)}
	case errors.Is(err, errOthers), errors.Is(err, ErrReplaced):
		return 0, l.fail(op, err)
	}
	fix := fmt.Sprintf("nothing was written; a sync of the file has failed, and the copy that cures it needs %d bytes: try again once the cause is gone", size)
	return 0, &Error{Op: op, Path: l.path, Fix: fix, Err: cause(err)}
}

// succeed gives the file's name to a new file that fill has written to, and returns
// that file, locked; nil if the old one kept the name. The new file is on stable
// storage before it gets the name, and bears the mark until the folder is synced,
// so a kill in between leaves a file that the next Log cures again. If follow is
// set this Log continues in the new file from that moment, so that no other call
// takes it for a foreign one while the folder is synced.
func (l *Log) succeed(fill func(*tempFile) error, follow bool) (*tempFile, error) {
	old := l.current.Load()
	info, err := old.Stat()
	if err != nil {
		return nil, err
	}
	_ = RemoveTemps(l.root, l.name) // only for the space they take
	var next *opened
	prepare := func(t *tempFile) error {
		next = t.opened
		takeOwner(l.root, t.temp, info)
		err := l.root.Chmod(t.temp, info.Mode().Perm())
		return cmp.Or(err, t.Mark(true), fill(t))
	}
	rename := func(root *os.Root, from, to string) error {
		if _, err := old.Lookup(); err != nil { // it was just removed
			return err
		}
		l.moving.Lock()
		defer l.moving.Unlock()
		err := root.Rename(from, to)
		if err == nil && follow {
			l.swap(next)
		}
		return err
	}
	t, err := install(l.root, l.name, &l.opts, prepare, true, rename)
	if err != nil {
		return nil, err
	}
	err = syncFolder(l.root, l.name, l.opts.seam)
	if err == nil {
		err = t.Mark(false)
	}
	return t, err
}

// swap continues in another file, whose append lock the caller also holds, and
// closes the one before.
func (l *Log) swap(next *opened) {
	old := l.current.Swap(next)
	// Closing the descriptor gives its locks back too, but not at once if a
	// child process has just inherited it.
	_ = old.Unlock()
	_ = old.Close()
	l.end = 0
}

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

// contains reports whether the file f holds lines.
func contains(f io.ReaderAt, lines unsynced) bool {
	data := lines.data
	for _, p := range lines.parts {
		got := make([]byte, p.n)
		if n, _ := f.ReadAt(got, p.off); n < p.n || !bytes.Equal(got, data[:p.n]) {
			return false
		}
		data = data[p.n:]
	}
	return true
}

// copyLines writes size bytes to an empty file: what from says, with lines laid
// over. It goes through memory, because a copy that the file system makes can
// share the very extents that were never written.
func copyLines(to io.Writer, from io.ReaderAt, size int64, lines unsynced) error {
	chunk := make([]byte, min(copyChunk, size))
	for off := int64(0); off < size; {
		p := chunk[:min(int64(len(chunk)), size-off)]
		n, err := from.ReadAt(p, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		clear(p[n:]) // lines beyond the end belong here
		if err := lines.overlay(p, off); err != nil {
			return err
		}
		if _, err := to.Write(p); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

// owed returns the number of this Log's last write.
func (l *Log) owed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// syncFolder puts the name of a file on stable storage.
func syncFolder(root *os.Root, name string, s *seam) error {
	if err := s.before("sync folder"); err != nil {
		return err
	}
	return SyncDir(root, filepath.Dir(name))
}
