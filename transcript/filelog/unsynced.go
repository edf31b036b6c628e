package filelog

import (
	"bytes"
	"math"
	"os"
)

const (
	// maxUnsynced is how many bytes a Log keeps in memory because they may have
	// to be written again. Above it an Append syncs, whatever the interval.
	maxUnsynced = 8 << 20
	// maxSpare is how large a buffer a Log keeps while there is nothing in it.
	maxSpare = 64 << 10
)

// unsynced is what a Log has written since the last good sync, so that Recover
// can write it again: after a failed sync the kernel may forget it at any time.
// Log.mu guards it.
type unsynced struct {
	parts []part // in the order of writing, so in that of the file
	size  int    // in bytes

	// Bytes whose owner does not wait for the sync are copied, into a buffer
	// that lasts from one sync to the next.
	buf, syncing, spare []byte
}

// A part is one write.
type part struct {
	seq  uint64
	off  int64
	data []byte
	lent bool // the data is the caller's, who waits for the sync
}

func (p part) end() int64 { return p.off + int64(len(p.data)) }

// add takes note of a write. It keeps data itself if it is lent, otherwise a
// copy.
func (u *unsynced) add(seq uint64, off int64, data []byte, lent bool) {
	if !lent {
		from := len(u.buf)
		u.buf = append(u.buf, data...)
		data = u.buf[from:len(u.buf):len(u.buf)]
	}
	u.parts = append(u.parts, part{seq, off, data, lent})
	u.size += len(data)
}

// begin is called when a sync begins.
func (u *unsynced) begin() { u.syncing, u.buf, u.spare = u.buf, u.spare[:0], nil }

// drop is called when the sync that began last has ended well: it forgets the
// writes up to seq.
func (u *unsynced) drop(seq uint64) {
	n := 0
	for n < len(u.parts) && u.parts[n].seq <= seq {
		u.size -= len(u.parts[n].data)
		n++
	}
	left := copy(u.parts, u.parts[n:])
	clear(u.parts[left:])
	u.parts = u.parts[:left]
	if cap(u.syncing) <= maxSpare {
		u.spare = u.syncing
	}
	u.syncing = nil
}

// keep is called when a sync has failed, before the owners of what was lent are
// told.
func (u *unsynced) keep() {
	for i, p := range u.parts {
		if p.lent {
			u.parts[i].data, u.parts[i].lent = bytes.Clone(p.data), false
		}
	}
}

// forget drops everything.
func (u *unsynced) forget() { *u = unsynced{} }

// reset makes data, at off, all there is, and returns that.
func (u *unsynced) reset(off int64, data []byte) []part {
	*u = unsynced{parts: []part{{off: off, data: data}}, size: len(data)}
	return u.parts
}

// Unsynced returns the offset of the first byte that this Log has written and
// not synced; the greatest offset there is if there is none.
func (l *Log) Unsynced() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsynced.parts) == 0 {
		return math.MaxInt64
	}
	return l.unsynced.parts[0].off
}

// Suspect is a stub.
func (l *Log) Suspect(from int64) {}

// RemoveTemps is a stub.
func RemoveTemps(root *os.Root, name string) error { return nil }
