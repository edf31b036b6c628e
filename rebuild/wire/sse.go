package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent is how many bytes the data of one server-sent event may have, and
// each of its lines.
const MaxEvent = 64 << 20

// ReadSSE reads server-sent events from r and calls f with the data of each,
// its data lines joined by newlines; f may use it until it returns. Events
// without data, comments and all other fields are skipped: the events of the
// providers say in their data what they are. Lines end with LF, CRLF or CR.
//
// It returns nil at the end of r, and the first error of r or f as it is.
// Data that the end of r cuts off is an event, as some servers leave out the
// last blank line; when r fails it is not.
func ReadSSE(r io.Reader, f func(event []byte) error) error {
	in := sseReader{r: bufio.NewReader(r)}
	var data []byte
	open := false // a data line was read since the last event
	emit := func() error {
		if !open || len(data) == 0 {
			open = false
			return nil
		}
		err := f(data)
		data, open = data[:0], false
		return err
	}
	for {
		line, err := in.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if value, ok := dataField(line); ok {
			if open {
				data = append(data, '\n')
			}
			data, open = append(data, value...), true
			if len(data) > MaxEvent {
				return fmt.Errorf("wire: server-sent event of more than %d bytes", MaxEvent)
			}
		}
		if len(line) == 0 || err != nil {
			if err := emit(); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// dataField returns the value of a line "data: value".
func dataField(line []byte) (value []byte, ok bool) {
	const name = "data"
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	rest := line[len(name):]
	switch {
	case len(rest) == 0:
		return nil, true
	case rest[0] != ':':
		return nil, false
	case len(rest) > 1 && rest[1] == ' ':
		return rest[2:], true
	}
	return rest[1:], true
}

// An sseReader splits a stream into lines. It gives a line out as soon as its
// end is there and does not wait for what follows a CR.
type sseReader struct {
	r       *bufio.Reader
	line    []byte
	afterCR bool // the last line ended with CR: an LF now belongs to it
	begun   bool
}

// next returns the next line without its end. At the end of the stream it
// returns the rest, which may be empty, with io.EOF.
func (in *sseReader) next() ([]byte, error) {
	in.line = in.line[:0]
	for {
		if _, err := in.r.Peek(1); err != nil {
			return in.text(), err
		}
		chunk, _ := in.r.Peek(in.r.Buffered())
		if in.afterCR && chunk[0] == '\n' {
			in.discard(1)
			in.afterCR = false
			continue
		}
		in.afterCR = false
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 {
			end = len(chunk)
		}
		if cr := bytes.IndexByte(chunk[:end], '\r'); cr >= 0 {
			end = cr
		}
		if len(in.line)+end > MaxEvent {
			return nil, fmt.Errorf("wire: line of more than %d bytes in server-sent events", MaxEvent)
		}
		in.line = append(in.line, chunk[:end]...)
		if end == len(chunk) {
			in.discard(end)
			continue
		}
		in.afterCR = chunk[end] == '\r'
		in.discard(end + 1)
		return in.text(), nil
	}
}

// discard skips bytes that were peeked at, which cannot fail.
func (in *sseReader) discard(n int) { _, _ = in.r.Discard(n) }

// text returns the line; the first one without a byte order mark.
func (in *sseReader) text() []byte {
	line := in.line
	if !in.begun {
		in.begun = true
		if len(line) >= 3 && string(line[:3]) == "\uFEFF" {
			line = line[3:]
		}
	}
	return line
}
