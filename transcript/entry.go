package transcript

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
)

// Version is the version of the line format that this package writes.
const Version = 1

// Entry is one line of a transcript.
//
// A decoded entry keeps its line, including members this package does not know.
// Copying an entry copies the line.
type Entry struct {
	ID   string
	Time time.Time // zero if the line lacks one
	// Batch is the number of lines of the batch that this line starts, or 0
	// for a line on its own; Part is the place of a later line, counted from 2.
	Batch, Part int
	// Idem is the idempotency key of the batch that this line starts, IdemHash
	// the hash of the batch. Both are empty on most lines.
	Idem, IdemHash string
	// App is data of the application that belongs to the entry: any JSON. Models
	// never see it.
	App json.RawMessage
	// Erased is set if the content of the entry was erased, see [Entry.Erase].
	Erased bool
	Body   Body
	line   []byte
}

// Type is the "type" member of the line.
func (e Entry) Type() string {
	if e.Body == nil {
		return ""
	}
	return e.Body.kind()
}

// Line returns the JSON of the entry without a newline: the line it was decoded
// from, without white space around it, or the line encoded for it. The caller
// must not modify it.
func (e Entry) Line() []byte {
	if e.line == nil {
		e.line = e.appendLine(nil)
	}
	return e.line
}

// WithLine returns e with line as its line, which the entry retains. It is for
// decoders of other formats; see [ScanOptions].
func (e Entry) WithLine(line []byte) Entry {
	e.line = line
	return e
}

// WithChecksum returns e with a line that ends with a checksum, which scans verify;
// see [DamageCRC]. An existing checksum is left alone, even a wrong one:
// a new one would hide the damage. Code that changes a line encodes it again
// and adds the checksum last. The line of e itself is not modified.
func (e Entry) WithChecksum() Entry {
	switch {
	case e.line == nil: // the new line is this call's own
		e.line = checksum.Append(e.Line())
	case !checksum.Ends(e.line):
		e.line = checksum.Append(append(make([]byte, 0, len(e.line)+len(`,"crc":"01234567"`)), e.line...))
	}
	return e
}

// MarshalJSON implements [encoding/json.Marshaler]. It returns the line;
// [encoding/json.Marshal] then escapes and compacts it in its own way.
func (e Entry) MarshalJSON() ([]byte, error) { return e.Line(), nil }

// UnmarshalJSON implements [encoding/json.Unmarshaler]; see [ParseEntry].
func (e *Entry) UnmarshalJSON(data []byte) error {
	got, err := ParseEntry(slices.Clone(data))
	if err == nil {
		*e = got
	}
	return err
}

// IsHead reports whether an entry of this type can be the head of a session:
// its last message, compaction or rewind. Conditional appends compare heads, so
// bookkeeping entries never make them fail.
func IsHead(entryType string) bool {
	switch entryType {
	case TypeUser, TypeAssistant, TypeToolUse, TypeToolResult, typeCompaction, typeRewind:
		return true
	}
	return false
}

// WithSource returns e with a new line whose member "src" holds the line of
// another program that the entry was made from, byte for byte unless it is not
// valid UTF-8. Folds ignore the member. Add a checksum afterwards, not before.
func (e Entry) WithSource(line []byte) Entry {
	own := e.appendLine(nil)
	own = append(own[:len(own)-1], `,"src":`...)
	own = jsontext.AppendString(own, string(line))
	e.line = append(own, '}')
	return e
}

// Source returns the line that [Entry.WithSource] stored; ok is false without
// one.
func (e Entry) Source() (line []byte, ok bool) {
	v, ok := jsontext.Member(e.line, "src")
	if !ok {
		return nil, false
	}
	s, ok := jsontext.String(v)
	return []byte(s), ok
}
