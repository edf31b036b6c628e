package transcript

import (
	"bytes"
	"io"
	"iter"
	"sync"
)

// siftBlock is the size of a read, in bytes, unless a line is longer. The first read is
// siftPart, because some loops only want the last line. If keep accepts a block, it is
// tried on parts of about siftPart bytes and then on single lines.
const (
	siftBlock = 64 << 10
	siftPart  = 8 << 10
)

// siftBuffers has the blocks that scans of many transcripts use one after the
// other.
var siftBuffers sync.Pool

var newline = []byte("\n")

// linesBackward yields the lines of linesForward that keep accepts, from the last to the
// first. A nil keep accepts all, those over the limit too.
func linesBackward(r io.ReaderAt, from, size int64, maxLine int, keep func(offset int64, lines []byte) bool) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		s := sifter{r: r, from: from, maxLine: maxLine, keep: keep}
		if buf, ok := siftBuffers.Get().(*[]byte); ok {
			s.buf = *buf
		}
		defer func() {
			if len(s.buf) <= siftBlock {
				siftBuffers.Put(&s.buf)
			}
		}()
		n := int64(siftPart)
		for end := size; end > from; n = siftBlock {
			block, start, err := s.blockBefore(end, n)
			switch {
			case err != nil:
				yield(line{}, err)
				return
			case block != nil:
				if !s.sift(block, start, yield) {
					return
				}
			case keep == nil && !yield(line{offset: start, end: end, terminated: s.terminated, tooLong: true}, nil):
				return
			}
			end = start
		}
	}
}

type sifter struct {
	r          io.ReaderAt
	from       int64
	maxLine    int
	keep       func(offset int64, lines []byte) bool
	buf        []byte
	terminated bool // the last line of the block at hand
}

// blockBefore reads whole lines that end at an offset: as many as fit into n bytes, or
// one that is longer. A line above the limit gives no block.
func (s *sifter) blockBefore(end, n int64) (block []byte, start int64, err error) {
	n = min(n, end-s.from)
	if block, err = s.read(end-n, n); err != nil {
		return nil, 0, err
	}
	s.terminated = block[n-1] == '\n'
	if end-n == s.from {
		return block, s.from, nil
	}
	if first := bytes.IndexByte(block[:n-1], '\n') + 1; first > 0 {
		return block[first:], end - n + int64(first), nil
	}
	if start, err = s.lineStart(end); err != nil || end-start > int64(s.maxLine)+1 {
		return nil, start, err
	}
	block, err = s.read(start, end-start)
	return block, start, err
}

// lineStart returns the offset of the line that ends at an offset.
func (s *sifter) lineStart(end int64) (int64, error) {
	for end--; end > s.from; {
		n := min(siftBlock, end-s.from)
		block, err := s.read(end-n, n)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return s.from, nil
}

func (s *sifter) read(offset, n int64) ([]byte, error) {
	if int64(len(s.buf)) < n {
		s.buf = make([]byte, max(n, siftBlock))
	}
	return s.buf[:n], readFull(s.r, s.buf[:n], offset)
}

// sift yields the accepted lines of a block. It reports whether the loop
// continues.
func (s *sifter) sift(block []byte, start int64, yield func(line, error) bool) bool {
	switch {
	case s.keep == nil:
		return s.lines(block, start, yield)
	case !s.wants(block, start):
		return true
	}
	for whole := len(block); len(block) > 0; {
		at := partOf(block)
		part, from := block[at:], start+int64(at)
		if (len(part) == whole || s.wants(part, from)) && !s.lines(part, from, yield) {
			return false
		}
		block = block[:at]
	}
	return true
}

func (s *sifter) wants(block []byte, start int64) bool {
	lines := bytes.TrimSuffix(block, newline)
	return len(lines) > 0 && s.keep(start, lines)
}

// partOf returns the start of the last lines of a block that fit into a part,
// or of one longer line.
func partOf(block []byte) int {
	i := len(block) - siftPart
	if i <= 0 {
		return 0
	}
	if next := bytes.IndexByte(block[i-1:len(block)-1], '\n'); next >= 0 {
		return i + next
	}
	return bytes.LastIndexByte(block[:i-1], '\n') + 1
}

// lines yields the lines that keep accepts, from a block that it accepted. It
// reports whether the loop continues.
func (s *sifter) lines(block []byte, start int64, yield func(line, error) bool) bool {
	single := bytes.IndexByte(block[:len(block)-1], '\n') < 0
	for len(block) > 0 {
		at := bytes.LastIndexByte(block[:len(block)-1], '\n') + 1
		text := bytes.TrimSuffix(block[at:], newline)
		l := line{offset: start + int64(at), end: start + int64(len(block)), terminated: len(text) < len(block)-at}
		block = block[:at]
		switch {
		case len(text) > s.maxLine:
			if l.tooLong = true; s.keep != nil {
				continue
			}
		case !single && s.keep != nil && !s.keep(l.offset, text):
			continue
		default:
			l.text = bytes.Clone(text)
		}
		if !yield(l, nil) {
			return false
		}
	}
	return true
}
