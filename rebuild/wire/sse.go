package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/convolog/convolog/rebuild/wire/internal/js"
)

// maxEvent limits the bytes of data of one server-sent event, and of each of
// its lines.
const maxEvent = 64 << 20

// lastTypes are the types of events that end a stream of Anthropic or of OpenAI
// Responses. Gemini has none: its server ends the body.
var lastTypes = map[string]bool{
	"message_stop": true, "response.completed": true, "response.incomplete": true, "response.failed": true,
}

// isLast reports whether a provider sends nothing after an event.
func isLast(event []byte) bool {
	return string(event) == "[DONE]" || lastTypes[js.String(event, "type")]
}

// ReadSSE reads server-sent events from r and calls f with the data of each
// event, its data lines joined by newlines; f may use the data until it
// returns. Events without data, comments and all other fields are skipped: the
// providers' data contains the type. Lines end with LF, CRLF or CR. An event or
// a line of more than 64 MiB is an error.
//
// It returns nil at the end of r, and the first error of r or f unchanged. It
// also returns nil after the last event of a provider, without reading on: some
// servers keep the connection open, or break it. These events are [DONE] and the
// types message_stop, response.completed, response.incomplete and
// response.failed. Data at the end of r is an event even without the last blank
// line, which some servers leave out; if r fails it is not.
func ReadSSE(r io.Reader, f func(event []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	lines.Split(splitLine())
	var data []byte // of the event so far, each line with its newline
	emit := func() (last bool, err error) {
		event := bytes.TrimSuffix(data, []byte("\n"))
		if data = data[:0]; len(event) == 0 {
			return false, nil
		}
		last = isLast(event)
		return last, f(event)
	}
	for first := true; lines.Scan(); first = false {
		line := lines.Bytes()
		if first {
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		if len(line) == 0 {
			if last, err := emit(); last || err != nil {
				return err
			}
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue
		}
		data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		if len(data) > maxEvent {
			return fmt.Errorf("wire: server-sent event of more than %d bytes", maxEvent)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("wire: line of more than %d bytes in server-sent events", maxEvent)
	case err != nil:
		return err
	}
	_, err := emit()
	return err
}

// splitLine returns a function that splits a stream into lines. It returns a line
// as soon as its end is read, without waiting for a byte after a CR.
func splitLine() bufio.SplitFunc {
	afterCR := false // the last line ended with CR: an LF now belongs to it
	searched := 0    // bytes without an end of the line
	return func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		start := 0
		if afterCR && len(data) > 0 && data[0] == '\n' {
			start = 1
		}
		from := max(start, searched)
		if i := bytes.IndexAny(data[from:], "\r\n"); i >= 0 {
			end := from + i
			afterCR, searched = data[end] == '\r', 0
			return end + 1, data[start:end], nil
		}
		if !atEOF || start == len(data) {
			searched = len(data)
			return 0, nil, nil
		}
		searched = 0
		return len(data), data[start:], nil
	}
}
