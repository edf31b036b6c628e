package filelog

import (
	"bytes"
	"math"
)

const (
	// maxUnsynced is how many bytes a Log keeps in memory because a cure may
	// have to write them again. An Append that exceeds it syncs, whatever the
	// interval.
	maxUnsynced = 8 << 20
	// maxSpare is how large a buffer a Log keeps while it is empty.
	maxSpare = 256 << 10
)

// unsynced holds copies of the lines this Log has written since its last good
// sync: after a failed sync the kernel may forget them at any time. Log.mu
// guards it. A copy of the struct stays readable without Log.mu until the next
// drop, which only the leader of a sync makes.
type unsynced struct {
	parts []part // in the order of writing, which is that of the file
	data  []byte // of all parts, one after the other
}

// A part is one write: where it went and how many bytes it had.
type part struct {
	off int64
	n   int
}

func (u *unsynced) add(off int64, data []byte) {
	u.parts = append(u.parts, part{off, len(data)})
	u.data = append(u.data, data...)
}

// drop forgets the first n parts. Parts that were added meanwhile stay.
func (u *unsynced) drop(n int) {
	size := 0
	for _, p := range u.parts[:n] {
		size += p.n
	}
	u.parts = append(u.parts[:0], u.parts[n:]...)
	u.data = append(u.data[:0], u.data[size:]...)
	if len(u.parts) == 0 && cap(u.data) > maxSpare {
		*u = unsynced{}
	}
}

// end returns the offset after the last part, 0 if there is none.
func (u *unsynced) end() int64 {
	if len(u.parts) == 0 {
		return 0
	}
	last := u.parts[len(u.parts)-1]
	return last.off + int64(last.n)
}

// overlay lays the parts over p, which a file holds at off. It reports whether
// that changed anything, and fails if p holds bytes of somebody else where a
// part belongs: a lost write leaves NULs, never other bytes.
func (u *unsynced) overlay(p []byte, off int64) (changed bool, err error) {
	data, end := u.data, off+int64(len(p))
	for _, part := range u.parts {
		want := data[:part.n]
		data = data[part.n:]
		lo, hi := max(off, part.off), min(end, part.off+int64(part.n))
		if lo >= hi {
			continue
		}
		got, want := p[lo-off:hi-off], want[lo-part.off:hi-part.off]
		if bytes.Equal(got, want) {
			continue
		}
		for i, b := range got {
			if b != want[i] && b != 0 {
				return false, errOthers
			}
		}
		copy(got, want)
		changed = true
	}
	return changed, nil
}

// Unsynced returns the offset of the first byte that this Log has written and
// not synced, or the greatest offset there is if there is none.
func (l *Log) Unsynced() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsynced.parts) == 0 {
		return math.MaxInt64
	}
	return l.unsynced.parts[0].off
}
