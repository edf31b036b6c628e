package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

// DefaultMaxLine is the length in bytes above which a line is not looked at.
const DefaultMaxLine = 256 << 20

// ScanOptions says how to read a transcript. Nil and the zero value mean: all
// of it, in the native format, as a file that may still be written.
type ScanOptions struct {
	// From is the offset of a line. A forward scan starts there; a backward
	// scan ends before it.
	From int64
	// Final says that nobody is writing. The bytes after the last newline are
	// then an entry or damage; otherwise they may be a write in progress and
	// are left out.
	Final bool
	// MaxLine is the length in bytes above which a line is reported as
	// [DamageTooLong]; 0 means DefaultMaxLine. Memory is bounded by it.
	MaxLine int
	// Decode decodes a line of another format, given without its newline and
	// with its offset; it owns the slice. Nil reads the native format. Errors
	// other than *[DamageError] become [DamageMalformed].
	Decode func(line []byte, offset int64) (Entry, error)
	// Genuine tells a whole record at the end of a damaged line from a piece
	// of one: it sees a valid JSON object. Nil takes objects that decode to a
	// known type and have members "ts" and, in the native format, "id".
	Genuine func(object []byte) bool
}

// Record is what a scan finds: an entry, or damage if Damage is not nil.
type Record struct {
	Offset int64 // of the first byte
	End    int64 // the offset after the line that holds it, newline included
	Entry  Entry
	Damage *Damage
}

// Scan reads the size bytes of r from front to back, line by line. Only '\n'
// ends a line; a byte order mark, carriage returns, blank lines and NUL bytes
// around a record are tolerated; a whole record glued behind a torn one is
// found; every other byte is reported as damage.
//
// The sequence may be ranged over several times. It ends after the first pair
// with an error, which is an error of r.
func Scan(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return func(yield func(Record, error) bool) {
		for l, err := range linesForward(r, o.From, size, o.MaxLine) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, rec := range o.records(l) {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}

// ScanBackward yields the records of [Scan] in the opposite order.
func ScanBackward(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return func(yield func(Record, error) bool) {
		for l, err := range linesBackward(r, o.From, size, o.MaxLine) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			recs := o.records(l)
			slices.Reverse(recs)
			for _, rec := range recs {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}

func (o *ScanOptions) resolve() ScanOptions {
	var r ScanOptions
	if o != nil {
		r = *o
	}
	if r.MaxLine <= 0 {
		r.MaxLine = DefaultMaxLine
	}
	native := r.Decode == nil
	if native {
		r.Decode = func(line []byte, _ int64) (Entry, error) { return ParseEntry(line) }
	}
	if r.Genuine == nil {
		decode := r.Decode
		r.Genuine = func(object []byte) bool { return genuine(object, native, decode) }
	}
	return r
}

func genuine(object []byte, needID bool, decode func([]byte, int64) (Entry, error)) bool {
	_, ts := jsontext.Member(object, "ts")
	_, id := jsontext.Member(object, "id")
	if !ts || needID && !id {
		return false
	}
	e, err := decode(object, 0)
	_, unknown := e.Body.(Unknown)
	return err == nil && !unknown
}

// records decodes one line into what it holds, in order.
func (o *ScanOptions) records(l line) []Record {
	if !l.terminated && !o.Final {
		return nil
	}
	damage := func(offset int64, size int64, kind DamageKind, reason string) Record {
		return Record{Offset: offset, End: l.end, Damage: &Damage{Kind: kind, Offset: offset, Size: size, Reason: reason}}
	}
	if l.tooLong {
		return []Record{damage(l.offset, l.size(), DamageTooLong, "")}
	}
	text, offset := l.text, l.offset
	if offset == 0 {
		if cut, ok := bytes.CutPrefix(text, []byte("\xef\xbb\xbf")); ok {
			text, offset = cut, 3
		}
	}
	var recs []Record
	nul := func(n int) { // n NUL bytes at the front of text
		recs = append(recs, damage(offset, int64(n), DamageNUL, ""))
		text, offset = text[n:], offset+int64(n)
	}
	if n := len(text) - len(bytes.TrimLeft(text, "\x00")); n > 0 {
		nul(n)
	}
	body := bytes.TrimRight(text, "\x00")
	tail := len(text) - len(body)
	text = body

	for len(jsontext.Trim(text)) > 0 {
		n := o.one(&recs, text, offset, l, damage)
		text, offset = text[n:], offset+int64(n)
	}
	if tail > 0 {
		offset = l.offset + int64(len(l.text)-tail)
		recs = append(recs, damage(offset, int64(tail), DamageNUL, ""))
	}
	return recs
}

// one appends the record that text begins with, or the damage up to the next
// one, and returns how many bytes that was.
func (o *ScanOptions) one(recs *[]Record, text []byte, offset int64, l line,
	damage func(int64, int64, DamageKind, string) Record,
) int {
	e, err := o.Decode(text, offset)
	if err == nil {
		*recs = append(*recs, Record{Offset: offset, End: l.end, Entry: e})
		return len(text)
	}
	de, ok := errors.AsType[*DamageError](err)
	if !ok {
		de = &DamageError{Kind: DamageMalformed, Reason: err.Error()}
	}
	if de.Kind == DamageTorn {
		// Several records in one line: the newline between them was lost.
		if n := jsontext.Skip(text, 0); n < len(text) && json.Valid(text[:n]) && jsontext.IsObject(text[n:]) {
			if e, err := o.Decode(text[:n:n], offset); err == nil {
				*recs = append(*recs, Record{Offset: offset, End: l.end, Entry: e})
				return n
			}
		}
		if n := o.glued(text); n > 0 {
			*recs = append(*recs, damage(offset, int64(n), DamageTorn, ""))
			e, err := o.Decode(text[n:], offset+int64(n))
			if err == nil { // always: glued has seen it
				*recs = append(*recs, Record{Offset: offset + int64(n), End: l.end, Entry: e})
			}
			return len(text)
		}
	}
	*recs = append(*recs, damage(offset, int64(len(text)), de.Kind, de.Reason))
	return len(text)
}

// glued returns the index of a whole record that ends the line, behind a torn
// one; 0 if there is none. It looks from the right, where a candidate that is
// a piece of the record fails at its first bracket, and stops after having
// read the line a few times over, so hostile lines cost linear time.
func (o *ScanOptions) glued(text []byte) int {
	text = bytes.TrimRight(text, " \t\r")
	budget := 8 * len(text)
	for i := len(text); budget > 0; {
		if i = bytes.LastIndexByte(text[:i], '{'); i <= 0 {
			return 0
		}
		rest := text[i:]
		if name := jsontext.Trim(rest[1:]); !bytes.HasPrefix(name, []byte(`"`)) {
			budget--
			continue
		}
		n := jsontext.Skip(rest, 0)
		budget -= n
		if n < len(rest) {
			continue
		}
		budget -= n
		if jsontext.Valid(rest) && o.Genuine(bytes.Clone(rest)) {
			return i
		}
	}
	return 0
}
