package filelog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

const (
	copyChunk   = 1 << 20
	fixDoubt    = "the log still refuses appends, recover it again once the cause is gone"
	fixOverlap  = "inspect the file, and restore it from a copy"
	fixUnstable = "ask again once the cause is gone"
)

var (
	errDiffers = errors.New("what was written does not read back from the disk")
	errOthers  = errors.New("other bytes are where lines of this log were written")
)

// Recover makes a Log whose sync failed usable again. On one that has not
// failed it is [Log.Flush].
//
// When the error is nil, everything this Log has ever acknowledged is on stable
// storage, and so is everything else that is in the file now, which may be
// lines of the calls that failed: what they added is there, whole, or not, and
// a caller that must know appends it again under a condition. Calls that still
// waited for the failed sync return without an error.
//
// Syncing again would not do: the kernel forgets what it could not write and
// then says that all is well. Recover holds the append lock and writes
// everything since the last good sync over itself: what this Log wrote from
// memory, what others wrote in between as it reads back. It syncs that, empties
// the page cache, and compares what the disk gives back. A Log that has not
// synced since it was opened does so with the whole file. If that fails, or is
// more than 8 MiB, it makes a copy of the whole file, syncs and compares it,
// and gives it the file's name. Every Log of the old file, this one too, then
// fails with [ErrReplaced] and must be opened anew; a turn lock on the old file
// no longer keeps anybody out.
//
// What this Log wrote is in memory unless the policy is [SyncNever]; then it
// too is read back, which is only as good as the page cache. Lines of another
// process whose own sync failed are for that process to recover.
//
// After an error the Log is as it was, and Recover may be called again. The
// context is honoured until the first byte is written.
func (l *Log) Recover(ctx context.Context) error {
	const op = "recover"
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	if l.opts.ReadOnly {
		return l.fail(op, ErrReadOnly, fixWritable)
	}
	l.mu.Lock()
	seq, sound := l.written, l.failed == nil
	l.mu.Unlock()
	if sound {
		return l.flush(ctx, seq)
	}
	waited, err := l.lock(ctx, op, false)
	if err != nil {
		return err
	}
	var s Synced
	defer func() {
		l.unlock()
		l.tellWait(ctx, AppendLock, waited, nil)
		l.tellSync(ctx, s)
	}()
	l.end, l.lookedUp = 0, 0

	l.mu.Lock()
	defer l.mu.Unlock()
	for leads := false; !leads; {
		var err error
		if leads, err = l.lead(ctx, math.MaxUint64); err != nil {
			return l.fail(op, err, fixDoubt)
		}
	}
	defer l.follow()
	if l.failed == nil {
		return nil // somebody else has just recovered it
	}
	if err := ctx.Err(); err != nil {
		return l.fail(op, err, fixDoubt)
	}
	from, parts := l.doubt(), l.unsynced.parts // both stay: nobody else writes or syncs
	l.mu.Unlock()
	began := l.now()
	end, err := l.rewrite(op, from, parts)
	s = Synced{Took: since(began), Bytes: max(0, end-from), Err: cause(err)}
	l.mu.Lock()
	if err != nil {
		return err
	}
	l.failed, l.synced, l.sure = nil, l.written, end
	l.dirty, l.foreign = extent{}, false
	l.unsynced.forget()
	return nil
}

// Secure puts the bytes from start to end, which must be whole lines, on stable
// storage, by whomever they were written. Unlike [Log.FlushAll] it writes them
// over themselves first: a process whose sync failed may have left them in the
// page cache alone, where a sync finds nothing to do. When it fails with a
// [*NotDurableError] the outcome is unknown, as after an [Log.Append]. The
// context is honoured until the first byte is written.
func (l *Log) Secure(ctx context.Context, start, end int64) error {
	const op = "secure"
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	if l.opts.ReadOnly {
		return l.fail(op, ErrReadOnly, fixWritable)
	}
	waited, err := l.lock(ctx, op, false)
	if err != nil {
		return err
	}
	seq, err := l.secureLocked(ctx, op, start, end)
	l.tellWait(ctx, AppendLock, waited, nil)
	if err != nil {
		return err
	}
	if failed := l.sync(ctx, seq); failed != nil {
		return &NotDurableError{Path: l.path, Start: start, End: end, Err: failed.Err}
	}
	return nil
}

// secureLocked writes the bytes and gives the append lock back.
func (l *Log) secureLocked(ctx context.Context, op string, start, end int64) (seq uint64, err error) {
	defer l.unlock()
	if err := l.refused(); err != nil {
		return 0, err
	}
	if _, err := l.lookup(op); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, l.fail(op, err, fixUnstable)
	}
	f, err := l.reopen()
	if err == nil {
		buf := make([]byte, min(copyChunk, max(0, end-start)))
		for off := start; off < end && err == nil; off += int64(len(buf)) {
			buf = buf[:min(int64(len(buf)), end-off)]
			if err = readFull(f, buf, off); err == nil {
				_, err = f.WriteAt(buf, off)
			}
		}
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		return 0, l.fail(op, err, fixUnstable)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wroteUnknown(extent{start, end}), nil
}

// doubt returns the offset after the last byte that is known to be on stable
// storage. The caller holds l.mu.
func (l *Log) doubt() int64 {
	if l.dirty.start == l.dirty.end {
		return l.sure
	}
	return min(l.sure, l.dirty.start)
}

// rewrite puts everything from from on stable storage, and returns where that
// ends. The caller holds the append lock.
func (l *Log) rewrite(op string, from int64, parts []part) (end int64, err error) {
	end, err = l.lookup(op)
	if errors.Is(err, ErrReplaced) && l.copied != nil {
		if err := l.placeAgain(); err != nil {
			return 0, l.fail(op, err, fixDoubt)
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if n := len(parts); n > 0 {
		end = max(end, parts[n-1].end())
	}
	from = min(from, end)
	im := &image{file: l.file, end: end, parts: parts}
	var inPlace error
	if end-from <= maxUnsynced {
		data := make([]byte, end-from)
		if err := readFull(im, data, from); err != nil {
			return 0, l.fail(op, err, im.fix())
		}
		if inPlace = l.rewriteInPlace(from, data); inPlace == nil {
			return end, nil
		}
		// The page cache may have been emptied by now, so data is all there is,
		// for this try and the next.
		l.mu.Lock()
		parts = l.unsynced.reset(from, data)
		l.mu.Unlock()
		im = &image{file: l.file, end: end, parts: parts, final: true}
	}
	if !errors.Is(inPlace, ErrReplaced) {
		if err = l.copyOver(op, im); err == nil {
			return end, nil
		}
	}
	if errors.Is(cmp.Or(err, inPlace), ErrReplaced) {
		return 0, l.fail(op, ErrReplaced, fixReopen)
	}
	if inPlace != nil {
		err = fmt.Errorf("%w; copying the file: %w", cause(inPlace), cause(err))
	}
	return 0, l.fail(op, err, im.fix())
}

// rewriteInPlace writes data over what is at from, and makes sure of it.
func (l *Log) rewriteInPlace(from int64, data []byte) error {
	f, err := l.reopen()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, from)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.DropCache(from)
	}
	if err == nil {
		back := make([]byte, len(data))
		if err = readFull(f, back, from); err == nil && !bytes.Equal(back, data) {
			err = errDiffers
		}
		if err != nil {
			_, _ = f.WriteAt(data, from) // for readers, who would see what is on the disk
		}
	}
	return cmp.Or(err, f.Close())
}

// reopen opens the file once more, not for appending.
func (l *Log) reopen() (file, error) {
	f, id, err := openRegular(l.root, l.name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	disk, err := newDiskFile(l.root, l.name, f, nil)
	if err != nil {
		return nil, err
	}
	if !os.SameFile(l.id, id) {
		return nil, cmp.Or(disk.Close(), ErrReplaced)
	}
	return l.opts.seam.file(disk), nil
}

// copyOver gives the file's name to a copy that is on stable storage.
func (l *Log) copyOver(op string, im *image) (err error) {
	p := placing{root: l.root, name: l.name, sync: true, seam: l.opts.seam}
	f, temp, err := p.openTemp()
	if err != nil {
		return err
	}
	disk, err := newDiskFile(l.root, temp, f, nil)
	if err != nil {
		return errors.Join(err, l.root.Remove(temp))
	}
	w := p.seam.file(disk)
	// Nobody is to append to the copy before its name is safe.
	locked, err := w.Lock(false)
	if err == nil && !locked {
		err = ErrBusy
	}
	var was fs.FileInfo
	if err == nil {
		was, err = l.file.Stat()
	}
	if err == nil {
		err = cmp.Or(f.Chmod(was.Mode().Perm()), im.writeTo(w))
	}
	var id fs.FileInfo
	if err == nil {
		id, err = w.Stat()
	}
	if err == nil {
		err = p.seam.before("move")
	}
	if err == nil {
		_, err = l.lookup(op) // it may have been removed meanwhile
	}
	if err == nil {
		err = replace(l.root, temp, l.name)
	}
	if err != nil {
		_ = w.Close()
		_ = l.root.Remove(temp) // what stays has a name to be ignored
		return err
	}
	l.copied = id
	if err = l.syncName(&p); err == nil {
		l.copied = nil
	}
	_ = w.Unlock() // closing it does that too, but not at once if a child process is just being started
	return cmp.Or(err, w.Close())
}

// placeAgain makes the name of a copy safe, after that had failed.
func (l *Log) placeAgain() error {
	named, err := l.root.Lstat(l.name)
	if err != nil {
		return err
	}
	if !os.SameFile(named, l.copied) {
		return ErrReplaced
	}
	// A change of the folder, so that syncing it has something to do.
	p := placing{root: l.root, name: l.name, seam: l.opts.seam}
	f, temp, err := p.openTemp()
	if err == nil {
		err = cmp.Or(f.Close(), l.root.Remove(temp), l.syncName(&p))
	}
	if err == nil {
		l.copied = nil
	}
	return err
}

func (l *Log) syncName(p *placing) error {
	if err := p.seam.before("sync folder"); err != nil {
		return err
	}
	return SyncDir(l.root, filepath.Dir(l.name))
}

// An image is a file as it should be: the bytes in parts are known, the others
// are what the file says.
type image struct {
	file  io.ReaderAt
	end   int64
	parts []part // in order
	final bool   // no matter what the file says in their place
	alien bool   // it says something else
}

// ReadAt fills p from off; it never reads past the end.
func (m *image) ReadAt(p []byte, off int64) (int, error) {
	at, end := off, off+int64(len(p))
	if end > m.end {
		return 0, io.ErrUnexpectedEOF
	}
	for _, part := range m.parts {
		lo, hi := max(part.off, at), min(part.end(), end)
		if lo >= hi {
			continue
		}
		if err := readFull(m.file, p[at-off:lo-off], at); err != nil {
			return 0, err
		}
		got, want := p[lo-off:hi-off], part.data[lo-part.off:hi-part.off]
		if !m.final && m.taken(got, want, lo) {
			return 0, errOthers
		}
		copy(got, want)
		at = hi
	}
	if err := readFull(m.file, p[at-off:], at); err != nil {
		return 0, err
	}
	return len(p), nil
}

// taken says whether the file has something else at off than what was written
// there or what is left when that is lost: NULs, less than that, or nothing
// that can be read. It uses buf.
func (m *image) taken(buf, want []byte, off int64) bool {
	n, _ := m.file.ReadAt(buf, off)
	for i, b := range buf[:n] {
		if b != want[i] && b != 0 {
			m.alien = true
			return true
		}
	}
	return false
}

// fix says what to do after an error.
func (m *image) fix() string {
	if m.alien {
		return fixOverlap
	}
	return fixDoubt
}

// writeTo writes the image to an empty file and makes sure of it.
func (m *image) writeTo(w file) error {
	chunk := make([]byte, min(copyChunk, m.end))
	each := func(do func(p []byte, off int64) error) error {
		for off := int64(0); off < m.end; {
			p := chunk[:min(int64(len(chunk)), m.end-off)]
			if err := readFull(m, p, off); err != nil {
				return err
			}
			if err := do(p, off); err != nil {
				return err
			}
			off += int64(len(p))
		}
		return nil
	}
	err := each(func(p []byte, _ int64) error {
		n, err := w.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		return err
	})
	if err == nil {
		err = w.Sync()
	}
	// Where the cache cannot be emptied, the first sync of a new file counts.
	if err == nil {
		if err = w.DropCache(0); errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	other := make([]byte, len(chunk))
	return each(func(p []byte, off int64) error {
		q := other[:len(p)]
		if err := readFull(w, q, off); err != nil {
			return err
		}
		if !bytes.Equal(p, q) {
			return errDiffers
		}
		return nil
	})
}

// readFull fills p from off.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}
