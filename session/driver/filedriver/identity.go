package filedriver

import (
	"bytes"
	"hash/fnv"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

const maxIdentity = 4 << 10 // bytes of a first line that are looked at

// identify reports whether a transcript is the one that had its name when this
// driver last opened it: whether its first line, which holds the time at which
// it was made, is the same. What it is now is remembered. While a log is open
// it tells by itself that its file was replaced; this is for one that was
// closed in between.
func (d *Driver) identify(ref driver.Ref, l *filelog.Log) bool {
	head := make([]byte, maxIdentity)
	n, _ := l.ReadAt(head, 0) // what cannot be read now fails where it is needed
	line, _, whole := bytes.Cut(head[:n], []byte("\n"))
	if !whole && n < maxIdentity {
		return true // not even the first line is finished
	}
	h := fnv.New64a()
	_, _ = h.Write(line) // never fails
	id := h.Sum64()
	d.idsMu.Lock()
	defer d.idsMu.Unlock()
	was, known := d.ids[ref]
	d.ids[ref] = id
	return !known || was == id
}
