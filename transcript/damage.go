package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/jsontext"
)

// DamageKind is the kind of a damage.
type DamageKind string

// The kinds of damage.
const (
	DamageTorn      DamageKind = "torn"       // the beginning of an object; the rest was never written
	DamageNUL       DamageKind = "nul"        // NUL bytes, as a power cut leaves them
	DamageUTF8      DamageKind = "utf8"       // invalid UTF-8
	DamageNotJSON   DamageKind = "not-json"   // something else that is not JSON
	DamageNotObject DamageKind = "not-object" // JSON, but a scalar or an array
	DamageMalformed DamageKind = "malformed"  // an object without a type or with unusable members
	DamageTooLong   DamageKind = "too-long"   // longer than the reader's limit; not looked at
	DamageCRC       DamageKind = "crc"        // an entry whose bytes do not match its checksum
	DamageRepeated  DamageKind = "repeated"   // an entry that stands before it already; only who reads the whole transcript can tell
)

// Damage is a run of bytes of a transcript that are not an entry, or not the
// one that was written ([DamageCRC]). Damage is reported and left where it is.
type Damage struct {
	Kind   DamageKind `json:"kind"`
	Offset int64      `json:"offset"` // of the first byte in the file
	Size   int64      `json:"size"`   // in bytes, without a newline
	Reason string     `json:"reason,omitempty"`
}

// String returns a one-line description.
func (d Damage) String() string {
	s := fmt.Sprintf("%s: %d bytes at offset %d", d.Kind, d.Size, d.Offset)
	if d.Reason != "" {
		s += " (" + d.Reason + ")"
	}
	return s
}

// DamageError is why a line is not an entry.
type DamageError struct {
	Kind   DamageKind
	Reason string
}

// Error implements error.
func (e *DamageError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("transcript: line is no entry: %s: %s", e.Kind, e.Reason)
	}
	return fmt.Sprintf("transcript: line is no entry: %s", e.Kind)
}

// classify returns the reason why line is not a JSON object in UTF-8, or "".
func classify(line []byte) DamageKind {
	switch {
	case len(jsontext.Trim(line)) == 0:
		return DamageNotJSON
	case bytes.IndexByte(line, 0) >= 0 && len(bytes.Trim(line, "\x00 \t\r\n")) == 0:
		return DamageNUL
	case !utf8.Valid(line):
		if cut := cutRune(line); utf8.Valid(cut) && isTorn(cut) {
			return DamageTorn
		}
		return DamageUTF8
	case !jsontext.Valid(line):
		switch {
		case isTorn(line):
			return DamageTorn
		case bytes.IndexByte(line, 0) >= 0:
			return DamageNUL
		}
		return DamageNotJSON
	case !jsontext.IsObject(line):
		return DamageNotObject
	}
	return ""
}

// isTorn reports whether line, less NUL bytes at its end, is the beginning of an object.
// An object with a changed byte is not torn, even if it is the last byte.
func isTorn(line []byte) bool {
	text := bytes.TrimRight(line, "\x00")
	if !jsontext.IsObject(text) {
		return false
	}
	var obj json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&obj), io.ErrUnexpectedEOF)
}

// cutRune returns line without the beginning of a rune at its end.
func cutRune(line []byte) []byte {
	for i := len(line) - 1; i >= 0 && i >= len(line)-utf8.UTFMax; i-- {
		if utf8.RuneStart(line[i]) {
			if !utf8.FullRune(line[i:]) {
				return line[:i]
			}
			break
		}
	}
	return line
}
