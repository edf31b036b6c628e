package filedriver

import (
	"hash/fnv"
	"io"

	"github.com/convolog/convolog/internal/filelog"
)

// A mark distinguishes a transcript from another of its name, for example one imported
// again with the same header, or one that was erased while it was archived. It is for
// closed logs and archives: an open log notices itself that its file was replaced. The zero
// mark fits every transcript.
type mark struct {
	size int64  // of the marked beginning; if below 0 no transcript fits
	sum  uint64 // of the first and the last bytes of the beginning
}

// markOf returns the mark of the first size bytes.
func markOf(r io.ReaderAt, size int64) mark {
	ends, _ := filelog.Ends(r, size) // an unreadable part fails where it is needed
	h := fnv.New64a()
	_, _ = h.Write(ends) // never fails
	return mark{size, h.Sum64()}
}

func (m mark) fits(r io.ReaderAt) bool { return m.size == 0 || m.size > 0 && markOf(r, m.size) == m }
