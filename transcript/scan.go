package transcript

import (
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
	// Decode decodes one record of another format, given without white space
	// around it and with the offset of its first byte; it owns the slice, and
	// should keep it with [Entry.WithLine]. Nil reads the native format.
	// Errors other than *[DamageError] become [DamageMalformed].
	Decode func(line []byte, offset int64) (Entry, error)
	// Genuine tells a whole record at the end of a damaged line from a piece
	// of one: it sees a valid JSON object. Nil takes objects that decode to a
	// known type and have members "ts" and, in the native format, "id".
	Genuine func(object []byte) bool
}

// Record is what a scan finds: an entry, or damage if Damage is not nil.
//
// Damage of the kind [DamageCRC] comes with an entry, the one that can be read
// in spite of it: to drop a message for one wrong letter would lose more.
// [Record.HasEntry] says whether there is one.
type Record struct {
	Offset int64 // of the first byte
	End    int64 // the offset after the line that holds it, newline included
	Entry  Entry
	Damage *Damage
}

// HasEntry reports whether the record has an entry.
func (r Record) HasEntry() bool { return r.Damage == nil || r.Damage.Kind == DamageCRC }

// Scan reads the size bytes of r from front to back, line by line. Only '\n'
// ends a line; a byte order mark in front of a line, white space around a
// record and blank lines are tolerated; whole records that share a line, and
// one that was glued behind a torn one, are found; every other byte is
// reported as damage.
//
// What follows a torn record may also be an object inside of it, if the tear
// is where a value begins. It is then taken for an entry only if its ts and id
// are greater than those of the torn record.
//
// The sequence may be ranged over several times. It ends after the first pair
// with an error, which is an error of r.
func Scan(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return func(yield func(Record, error) bool) {
		var recs []Record // of one line
		for l, err := range linesForward(r, o.From, size, o.MaxLine) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			recs = o.appendRecords(recs[:0], l)
			for _, rec := range recs {
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
		var recs []Record // of one line
		for l, err := range linesBackward(r, o.From, size, o.MaxLine) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			recs = o.appendRecords(recs[:0], l)
			slices.Reverse(recs)
			for _, rec := range recs {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}

// scanner is ScanOptions with the defaults filled in.
type scanner struct {
	ScanOptions
	native bool
}

func (o *ScanOptions) resolve() scanner {
	var r scanner
	if o != nil {
		r.ScanOptions = *o
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
	r.native = native
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
