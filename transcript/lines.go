package transcript

import (
	"bytes"
	"io"
	"iter"
)

const chunkSize = 64 << 10

// line is one line of a file. It owns its text.
type line struct {
	offset     int64
	end        int64  // offset after the line, newline included
	text       []byte // without the newline; nil if tooLong
	terminated bool   // ended by a newline
	tooLong    bool
}

func (l line) size() int64 {
	n := l.end - l.offset
	if l.terminated {
		n--
	}
	return n
}

// readFull reads len(p) bytes at off. A file that became shorter while it was
// read is an error: the gap must not look like the end.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF || err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// linesForward yields the lines that start at from or later and before size.
// Memory is bounded by maxLine.
func linesForward(r io.ReaderAt, from, size int64, maxLine int) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		var (
			chunk = make([]byte, min(chunkSize, max(size-from, 0)))
			cur   = line{offset: from}
			pos   = from // offset of the next byte to read
		)
		for pos < size {
			buf := chunk[:min(int64(len(chunk)), size-pos)]
			if err := readFull(r, buf, pos); err != nil {
				yield(line{}, err)
				return
			}
			for len(buf) > 0 {
				piece := buf
				i := bytes.IndexByte(buf, '\n')
				if i >= 0 {
					piece = buf[:i]
				}
				switch {
				case cur.tooLong:
				case len(cur.text)+len(piece) > maxLine:
					cur.tooLong, cur.text = true, nil
				default:
					if n := len(cur.text); n >= longLine && n+len(piece) > cap(cur.text) {
						end, err := endOfLine(r, pos, size)
						if err != nil {
							yield(line{}, err)
							return
						}
						cur.text = append(make([]byte, 0, min(end-cur.offset, int64(maxLine))), cur.text...)
					}
					cur.text = append(cur.text, piece...)
				}
				pos += int64(len(piece))
				buf = buf[len(piece):]
				if i < 0 {
					continue
				}
				pos++
				buf = buf[1:]
				cur.end, cur.terminated = pos, true
				if !yield(cur, nil) {
					return
				}
				cur = line{offset: pos}
			}
		}
		if cur.end = pos; cur.end > cur.offset {
			yield(cur, nil)
		}
	}
}

// longLine is the size in bytes of a line that is measured before more of it is
// read: growing its text step by step would need several times the memory.
const longLine = 1 << 20

// endOfLine returns the offset of the first newline at from or later, or size.
func endOfLine(r io.ReaderAt, from, size int64) (int64, error) {
	chunk := make([]byte, min(chunkSize, size-from))
	for pos := from; pos < size; pos += int64(len(chunk)) {
		chunk = chunk[:min(int64(len(chunk)), size-pos)]
		if err := readFull(r, chunk, pos); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			return pos + int64(i), nil
		}
	}
	return size, nil
}

// linesBackward yields the lines of linesForward from the last to the first.
func linesBackward(r io.ReaderAt, from, size int64, maxLine int) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		var (
			chunk = make([]byte, min(chunkSize, max(size-from, 0)))
			buf   []byte  // the bytes read into it
			pos   = size  // offset of its first byte
			end   = size  // of the line in search
			term  = false // whether it ends with a newline
		)
		emit := func(offset int64) bool {
			l := line{offset: offset, end: end, terminated: term}
			switch at, n := offset-pos, l.size(); {
			case n > int64(maxLine):
				l.tooLong = true
			case at+n <= int64(len(buf)):
				l.text = bytes.Clone(buf[at : at+n])
			default:
				l.text = make([]byte, n)
				if err := readFull(r, l.text, offset); err != nil {
					yield(line{}, err)
					return false
				}
			}
			return yield(l, nil)
		}
		for pos > from {
			n := min(int64(len(chunk)), pos-from)
			buf, pos = chunk[:n], pos-n
			if err := readFull(r, buf, pos); err != nil {
				yield(line{}, err)
				return
			}
			for i := bytes.LastIndexByte(buf, '\n'); i >= 0; i = bytes.LastIndexByte(buf[:i], '\n') {
				start := pos + int64(i) + 1
				if start < end && !emit(start) {
					return
				}
				end, term = start, true
			}
		}
		if from < end {
			emit(from)
		}
	}
}
