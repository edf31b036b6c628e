package filelog

import (
	"bytes"
	"io"
	"slices"
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

const (
	// maxUnsynced is how many bytes a Log keeps in memory because a cure may
	// have to write them again. An Append that exceeds this syncs, whatever the
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
	parts []part // in the order of writing, as in the file: added by add, removed by drop
	data  []byte // of all parts, one after the other
}

// A part is one write: its offset and number of bytes.
type part struct {
	off int64
	n   int
}

func (u *unsynced) add(off int64, data []byte) {
	u.parts = append(u.parts, part{off, len(data)})
	u.data = append(u.data, data...)
}

// drop forgets first, a beginning of u. Later parts stay.
func (u *unsynced) drop(first unsynced) {
	u.parts = slices.Delete(u.parts, 0, len(first.parts))
	u.data = slices.Delete(u.data, 0, len(first.data))
	if len(u.parts) == 0 && cap(u.data) > maxSpare {
		*u = unsynced{}
	}
}

// end returns the offset after the last part, or 0.
func (u *unsynced) end() int64 {
	if len(u.parts) == 0 {
		return 0
	}
	last := u.parts[len(u.parts)-1]
	return last.off + int64(last.n)
}

// overlay copies the parts over p, which holds the bytes of a file from off. It
// fails if p differs from a part in a byte that is not NUL. A lost write leaves
// NULs, never other bytes.
func (u *unsynced) overlay(p []byte, off int64) error {
	data, end := u.data, off+int64(len(p))
	for _, part := range u.parts {
		want := data[:part.n]
		data = data[part.n:]
		lo, hi := max(off, part.off), min(end, part.off+int64(part.n))
		if lo >= hi {
			continue
		}
		got, want := p[lo-off:hi-off], want[lo-part.off:hi-part.off]
		for i, b := range got {
			if b != want[i] && b != 0 {
				return errOthers
			}
		}
		copy(got, want)
	}
	return nil
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
