package transcript

import (
	"io"
	"iter"
	"slices"

	"github.com/convolog/convolog/internal/ahead"
	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
)

// DefaultMaxLine is the length in bytes above which a line is not looked at.
const DefaultMaxLine = 256 << 20

// ScanOptions configures a scan. Nil and the zero value read a whole transcript
// in the native format that may still be written.
type ScanOptions struct {
	// From is the offset of a line. A forward scan starts there; a backward
	// scan ends before it.
	From int64
	// Final means that no writer is active, so the bytes after the last newline
	// are an entry or damage. Without it they may be a write in progress and
	// are skipped.
	Final bool
	// MaxLine is the length in bytes above which a line is reported as
	// [DamageTooLong]; 0 means DefaultMaxLine. Memory is bounded by it.
	MaxLine int
	// Decode decodes one record of another format, given without white space
	// around it and with the offset of its first byte. It owns the slice and
	// should keep it with [Entry.WithLine]. Nil reads the native format and
	// verifies checksums. Errors other than *[DamageError] become
	// [DamageMalformed].
	Decode func(line []byte, offset int64) (Entry, error)
	// Genuine distinguishes a whole record at the end of a damaged line from a
	// fragment of one. Its argument is a valid JSON object. Nil accepts objects
	// that decode to a known type and have members "ts" and, in the native
	// format, "id". With the native format it is called by several goroutines, also
	// while the loop's body runs.
	Genuine func(object []byte) bool
}

// Record is one finding of a scan: an entry, or damage if Damage is not nil.
//
// Damage of the kind [DamageCRC] comes with its entry, which could still be
// decoded: dropping a message for one wrong letter would lose more.
// [Record.HasEntry] covers both cases.
type Record struct {
	Offset int64 // of the first byte
	End    int64 // the offset after the line that holds it, newline included
	Entry  Entry
	Damage *Damage
}

// HasEntry reports whether the record holds an entry.
func (r Record) HasEntry() bool { return r.Damage == nil || r.Damage.Kind == DamageCRC }

// Scan reads the size bytes of r from front to back, line by line. Only '\n'
// ends a line. Scan tolerates a byte order mark at the start of a line, white
// space around a record and blank lines; it finds all records that share a line
// and a whole record glued to a torn one. Every other byte is reported as
// damage.
//
// An object inside a torn record may look like a record glued to it if the tear
// is where a value begins. Scan takes such an object for an entry only if its
// ts and id exceed the ones of the torn record.
//
// The sequence may be ranged over several times. It ends after the first pair with an
// error, which is an error of r. Lines of the native format are read and decoded
// ahead of the loop, by several goroutines: 256 lines at most, up to about 256 KiB.
func Scan(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return o.records(linesForward(r, o.From, size, o.MaxLine), false)
}

// ScanBackward yields the records of [Scan] in the opposite order.
func ScanBackward(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return o.records(linesBackward(r, o.From, size, o.MaxLine), true)
}

// records yields the records of lines; with reversed set, records of one line come
// from the last to the first. A caller's Decode is called by the loop alone.
func (s *scanner) records(lines iter.Seq2[line, error], reversed bool) iter.Seq2[Record, error] {
	decode := func(recs []Record, l line) []Record {
		n := len(recs)
		if recs = s.appendRecords(recs, l); reversed {
			slices.Reverse(recs[n:])
		}
		return recs
	}
	most := 1
	if s.native {
		most = ahead.Most
	}
	return ahead.Map(lines, most, func(l line) int { return len(l.text) }, decode)
}

func (s *scanner) appendRecords(recs []Record, l line) []Record {
	if !l.terminated && !s.Final {
		return recs
	}
	if n := len(l.text); s.native && n > 0 && l.text[0] == '{' && l.text[n-1] == '}' {
		if e, err := decodeEntry(l.text[:n:n]); err == nil {
			return append(recs, s.record(e, l.offset, l.end))
		}
	}
	return s.salvage(recs, l)
}

// record returns the record of an entry, with damage if a native entry does not
// match its checksum.
func (s *scanner) record(e Entry, offset, end int64) Record {
	r := Record{Offset: offset, End: end, Entry: e}
	if s.native && !checksum.Intact(e.line) {
		r.Damage = &Damage{Kind: DamageCRC, Offset: offset, Size: int64(len(e.line)), Reason: "the " + e.Type() + " entry is kept"}
	}
	return r
}

// scanner is ScanOptions with the defaults filled in.
type scanner struct {
	ScanOptions
	native bool
}

func (o *ScanOptions) resolve() *scanner {
	r := &scanner{}
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
