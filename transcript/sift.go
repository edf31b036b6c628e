package transcript

import (
	"bytes"
	"io"
	"iter"
	"slices"
	"sync"
)

// siftBlock is the size of a read, in bytes, unless a line is longer. The first read is
// siftPart, because some loops only want the last line. If keep accepts a block, it is
// tried on parts of about siftPart bytes and then on single lines.
const (
	siftBlock = 256 << 10
	siftPart  = 8 << 10
)

// siftBuffers has the blocks that scans of many transcripts use one after the
// other.
var siftBuffers sync.Pool

var newline = []byte("\n")

// Sift yields the records of [ScanBackward] whose lines keep accepts. Where keep
// refuses most lines it costs little more than reading, as those are not decoded.
//
// Keep is called with one line or several whole ones, without the last newline,
// and the offset of the first. It must accept several lines if it accepts any of
// them; it is then called for each alone. Lines come from the last to the first,
// each only when the loop has taken the later records. Keep must not retain or
// modify them. Lines above ScanOptions.MaxLine are left out.
func Sift(r io.ReaderAt, size int64, keep func(offset int64, lines []byte) bool, opts *ScanOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s := sifter{scanner: *opts.resolve(), r: r, keep: keep}
		if buf, ok := siftBuffers.Get().(*[]byte); ok {
			s.buf = *buf
		}
		defer func() {
			if len(s.buf) <= siftBlock {
				siftBuffers.Put(&s.buf)
			}
		}()
		n := int64(siftPart)
		for end := size; end > s.From; n = siftBlock {
			block, start, err := s.blockBefore(end, n)
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !s.sift(block, start, yield) {
				return
			}
			end = start
		}
	}
}

type sifter struct {
	scanner
	r    io.ReaderAt
	keep func(offset int64, lines []byte) bool
	buf  []byte
	recs []Record // of one line
}

// blockBefore reads whole lines that end at an offset: as many as fit into n bytes, or
// one that is longer. A line above the limit gives no block.
func (s *sifter) blockBefore(end, n int64) (block []byte, start int64, err error) {
	most := min(int64(s.MaxLine), end-s.From) + siftBlock
	for ; ; n *= 2 {
		n = min(n, most, end-s.From)
		if block, err = s.read(end-n, n); err != nil {
			return nil, 0, err
		}
		if end-n == s.From {
			return block, s.From, nil
		}
		if first := bytes.IndexByte(block[:n-1], '\n') + 1; first > 0 {
			return block[first:], end - n + int64(first), nil
		}
		if n == most {
			start, err = s.lineStart(end)
			return nil, start, err
		}
	}
}

// lineStart returns the offset of the line that ends at an offset.
func (s *sifter) lineStart(end int64) (int64, error) {
	for end--; end > s.From; {
		n := min(siftBlock, end-s.From)
		block, err := s.read(end-n, n)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return s.From, nil
}

func (s *sifter) read(offset, n int64) ([]byte, error) {
	if int64(len(s.buf)) < n {
		s.buf = make([]byte, max(n, siftBlock))
	}
	return s.buf[:n], readFull(s.r, s.buf[:n], offset)
}

// sift yields the accepted lines of a block. It reports whether the loop
// continues.
func (s *sifter) sift(block []byte, start int64, yield func(Record, error) bool) bool {
	if !s.wants(block, start) {
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
func (s *sifter) lines(block []byte, start int64, yield func(Record, error) bool) bool {
	single := bytes.IndexByte(block[:len(block)-1], '\n') < 0
	for len(block) > 0 {
		at := bytes.LastIndexByte(block[:len(block)-1], '\n') + 1
		text := bytes.TrimSuffix(block[at:], newline)
		l := line{offset: start + int64(at), end: start + int64(len(block)), terminated: len(text) < len(block)-at}
		block = block[:at]
		if len(text) > s.MaxLine || !single && !s.keep(l.offset, text) {
			continue
		}
		l.text = bytes.Clone(text)
		s.recs = s.appendRecords(s.recs[:0], l)
		slices.Reverse(s.recs)
		for _, rec := range s.recs {
			if !yield(rec, nil) {
				return false
			}
		}
	}
	return true
}
