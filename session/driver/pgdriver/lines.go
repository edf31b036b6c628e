package pgdriver

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A cursor holds the body of the session in its high bits, and the number of lines before
// the cursor in its low bits. So a cursor of replaced lines is never taken for a cursor of
// the new lines.
const (
	lineBits = 24
	maxLines = 1<<lineBits - 1
)

func cursorOf(body, lines int64) driver.Cursor { return driver.Cursor(body<<lineBits | lines) }

// lines are lines to insert, as arguments of SQL functions.
type lines struct {
	ids   []string
	data  [][]byte
	bytes int64 // with newlines
}

var (
	errBadLine = errors.New("a line holds a newline, nothing was written")
	errFull    = fmt.Errorf("the session would have more than %d lines, nothing was written: fork it, or begin a new session", maxLines)
)

// checkText returns an error that matches [fs.ErrInvalid] if the database cannot hold a text.
func checkText(what, text string) error {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("%.100q in a %s is not UTF-8 or contains NUL, nothing was written: %w", text, what, fs.ErrInvalid)
	}
	return nil
}

// linesOf checks lines and splits them into IDs and data. The result shares their data.
func linesOf(all []driver.Line) (lines, error) {
	l := lines{ids: []string{}, data: [][]byte{}}
	if len(all) > maxLines {
		return l, fmt.Errorf("%d lines are more than %d, the most of a session, nothing was written", len(all), maxLines)
	}
	for _, line := range all {
		if bytes.IndexByte(line.Data, '\n') >= 0 {
			return l, errBadLine
		}
		if err := checkText("entry ID", line.ID); err != nil {
			return l, err
		}
		l.ids, l.data = append(l.ids, line.ID), append(l.data, line.Data)
		l.bytes += int64(len(line.Data)) + 1
	}
	return l, nil
}

// ownedHash returns the hash of an owner and a key.
func ownedHash(key driver.KeyRef) []byte {
	return keyHash(strconv.Itoa(len(key.Owner)) + ":" + key.Owner + key.Key)
}

// keyHash returns the hash of a name.
func keyHash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// record makes the record of the line after the first at lines of a body. It retains data.
func record(data []byte, body, at int64) transcript.Record {
	rec := transcript.Record{Offset: int64(cursorOf(body, at)), End: int64(cursorOf(body, at+1))}
	var err error
	if rec.Entry, err = transcript.ParseEntry(data); err == nil {
		return rec
	}
	for found, err := range transcript.Scan(bytes.NewReader(data), int64(len(data)), &transcript.ScanOptions{Final: true}) {
		if err == nil {
			rec.Entry, rec.Damage = found.Entry, found.Damage
		}
		break
	}
	if rec.Damage == nil {
		rec.Damage = &transcript.Damage{Kind: transcript.DamageMalformed, Reason: err.Error()}
	}
	rec.Damage.Offset, rec.Damage.Size = rec.Offset, int64(len(data))
	return rec
}
