package filelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/convolog/convolog/session/driver"
)

const copyChunk = 1 << 20 // bytes that a copy holds in memory

// cure replaces the file by a copy, or finds that another Log has done so.
// recovering is set by Recover. The caller holds the append lock.
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
		// This Log's unsynced lines in the copy must not count as safe.
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
// if that is another Log's sound copy, or a new copy.
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
		if _, err := old.Lookup(); err != nil { // the file was just removed
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
// closes the old one.
func (l *Log) swap(next *opened) {
	old := l.current.Swap(next)
	// Closing the descriptor gives its locks back too, but not at once if a
	// child process has just inherited it.
	_ = old.Unlock()
	_ = old.Close()
	l.end = 0
}

// copyLines writes size bytes of from to an empty file, with lines laid over.
// It goes through memory, because a copy that the file system makes can share
// the very extents that were never written.
func copyLines(to io.Writer, from io.ReaderAt, size int64, lines unsynced) error {
	chunk := make([]byte, min(copyChunk, size))
	for off := int64(0); off < size; {
		p := chunk[:min(int64(len(chunk)), size-off)]
		n, err := from.ReadAt(p, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		clear(p[n:]) // lines beyond from's end go here
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
