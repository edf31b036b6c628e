package filedriver

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// A mark tells a transcript from another one of its name, which was imported again with
// the same header for example. It is for logs that are closed: an open one notices by
// itself that its file was replaced. The zero mark fits every transcript.
type mark struct {
	size int64  // of the beginning that it is about; below 0 no transcript fits
	sum  uint64 // of the first and the last bytes of the beginning
}

const marked = 4 << 10 // the bytes of a mark at each end

func markOf(r io.ReaderAt, size int64) mark {
	ends := make([]byte, min(size, marked))
	h := fnv.New64a()
	for _, at := range []int64{0, size - int64(len(ends))} {
		n, _ := r.ReadAt(ends, at) // what cannot be read now fails where it is needed
		_, _ = h.Write(ends[:n])   // never fails
	}
	return mark{size, h.Sum64()}
}

func (m mark) fits(r io.ReaderAt) bool { return m.size == 0 || m.size > 0 && markOf(r, m.size) == m }

func (d *Driver) mark(ref driver.Ref) mark {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.marks[ref]
}

func (d *Driver) setMark(ref driver.Ref, m mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marks[ref] = m
}

// remember marks a transcript as it is. It reports false, and changes nothing, while
// something is being appended, because that may be taken back.
func (d *Driver) remember(ref driver.Ref, l *filelog.Log) bool {
	size, ok, err := l.TrySize()
	switch {
	case errors.Is(err, filelog.ErrReplaced):
		d.setMark(ref, mark{size: -1})
	case ok && err == nil:
		d.setMark(ref, markOf(l, size))
	}
	return ok || err != nil
}

// identify returns an error, once, if a transcript is not the one that had its name when
// this driver last opened or closed it.
func (d *Driver) identify(ref driver.Ref, l *filelog.Log) error {
	fits := d.mark(ref).fits(l)
	if !fits {
		d.setMark(ref, mark{})
	}
	d.remember(ref, l)
	if !fits {
		return madeAgain(ref.ID)
	}
	return nil
}

// isAnother reports whether a transcript is not the one that this driver knows: the next
// call that opens it returns the error.
func (a *agent) isAnother(f found) bool {
	ref := driver.Ref{Agent: a.name, ID: f.id}
	if o, err := a.d.logs.acquire(ref, closedLog); err == nil {
		_, _, err = o.log.TrySize()
		_ = a.d.logs.release(o, nil) // nil stays nil
		return errors.Is(err, filelog.ErrReplaced)
	}
	o, err := a.open(f)
	if err != nil {
		return false
	}
	defer o.close()
	return !a.d.mark(ref).fits(o)
}

func madeAgain(id string) error {
	return fmt.Errorf("%w: session %s was deleted and made again", driver.ErrReplaced, id)
}
