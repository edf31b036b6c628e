package filedriver

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

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

func madeAgain(id string) error {
	return fmt.Errorf("%w: session %s was deleted and made again", driver.ErrReplaced, id)
}
