package filelog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
)

const (
	tailChunk = 64 << 10
	maxTail   = 256 << 20 // bytes of a tail that are looked at
)

// A Tail is an unterminated end of the file, left by a writer that died or by
// a power cut, that an Append or a Settle has ended with a '\n'. Its bytes
// stay in the file; the '\n' follows them.
type Tail struct {
	Offset   int64 // of its first byte
	Size     int64 // in bytes, the '\n' not counted
	Complete bool  // a whole record; otherwise torn
	Err      error // why it could not be read back; Complete is false then
}

// settle ends an unterminated tail, after [Log.ready]. The caller holds the
// append lock. The extent it returns is the '\n', or the empty one at the end of
// the file.
func (l *Log) settle(ctx context.Context, op string) (w written, err error) {
	end, err := l.ready(ctx, op, &w.cured)
	if err != nil {
		return w, err
	}
	w.lines = extent{end, end}
	if end == 0 || end == l.end { // as this Log left it
		return w, nil
	}
	if n, err := l.file().ReadAt(l.last[:], end-1); n < 1 {
		return w, l.fail(op, err, fixNothingWritten)
	}
	if l.last[0] == '\n' {
		l.end = end
		return w, nil
	}
	if l.opts.ReadOnly {
		return w, nil
	}
	n, err := l.file().Write(newline)
	if n < 1 {
		return w, l.fail(op, cmp.Or(err, io.ErrShortWrite), fixNothingWritten)
	}
	w.tail = end
	w.lines.end++
	w.seq = l.wrote(end, newline)
	return w, nil
}

// tellTail reports the tail that had ended at end, if there was one. The bytes
// are final, so no lock is needed to look at them.
func (l *Log) tellTail(ctx context.Context, end int64) {
	if end > 0 && l.opts.OnTail != nil {
		l.opts.OnTail(ctx, l.readTail(end))
	}
}

// readTail finds the start of the line whose bytes end at end, and judges it.
func (l *Log) readTail(end int64) Tail {
	var (
		chunk [tailChunk]byte
		torn  bool
		start = end
	)
	for start > 0 {
		from := max(0, start-tailChunk)
		part := chunk[:start-from]
		if n, err := l.file().ReadAt(part, from); n < len(part) {
			return Tail{Offset: start, Size: end - start, Err: err}
		}
		i := bytes.LastIndexByte(part, '\n') + 1
		torn = torn || bytes.IndexByte(part[i:], 0) >= 0
		start = from + int64(i)
		if i > 0 {
			break
		}
	}
	t := Tail{Offset: start, Size: end - start}
	if torn || t.Size > maxTail {
		return t
	}
	line := make([]byte, t.Size)
	if n, err := l.file().ReadAt(line, start); n < len(line) {
		t.Err = err
		return t
	}
	if l.opts.Complete != nil {
		t.Complete = l.opts.Complete(line)
	} else {
		t.Complete = isObject(line)
	}
	return t
}

// isObject reports whether line is one JSON object.
func isObject(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\r")
	return len(line) > 0 && line[0] == '{' && json.Valid(line)
}
