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

// markOf returns the mark of the first size bytes, or of all bytes if there are fewer.
func markOf(r io.ReaderAt, size int64) (mark, error) {
	ends, err := filelog.Ends(r, size)
	if err != nil {
		return mark{}, err
	}
	h := fnv.New64a()
	_, _ = h.Write(ends) // never fails
	return mark{size, h.Sum64()}, nil
}

// fits reports whether a transcript is the marked one. The error is one of r.
func (m mark) fits(r io.ReaderAt) (bool, error) {
	if m.size <= 0 {
		return m.size == 0, nil
	}
	got, err := markOf(r, m.size)
	return got == m, err
}
