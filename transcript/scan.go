package transcript

import (
	"io"
	"iter"
	"slices"
	"sync"

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
	// Final says that nobody is writing, so the bytes after the last newline
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
	// format, "id".
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

// HasEntry reports whether the record has an entry.
func (r Record) HasEntry() bool { return r.Damage == nil || r.Damage.Kind == DamageCRC }

// Scan reads the size bytes of r from front to back, line by line. Only '\n'
// ends a line. Scan tolerates a byte order mark at the start of a line, white
// space around a record and blank lines; it finds all records that share a line
// and a whole record glued to a torn one. Every other byte is reported as
// damage.
//
// An object inside a torn record may look like a record glued to it if the tear
// is where a value begins. Scan takes such an object for an entry only if its
// ts and id are greater than those of the torn record.
//
// The sequence may be ranged over several times. It ends after the first pair
// with an error, which is an error of r. Lines of the native format are read and
// decoded ahead of the loop, by several goroutines: 256 lines at most, and no further
// one once they have 256 KiB.
func Scan(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return o.records(linesForward(r, o.From, size, o.MaxLine), false)
}

// ScanBackward yields the records of [Scan] in the opposite order.
func ScanBackward(r io.ReaderAt, size int64, opts *ScanOptions) iter.Seq2[Record, error] {
	o := opts.resolve()
	return o.records(linesBackward(r, o.From, size, o.MaxLine), true)
}

// Native lines are decoded ahead of the loop, a group of them by one goroutine. A scan
// begins with one line and doubles that up to as many groups or bytes, so a loop that
// ends early has cost little.
const (
	groupLines  = 32
	aheadGroups = 8
	aheadBytes  = 256 << 10
)

type group struct {
	lines []line
	recs  []Record
}

// records yields the records of lines; reversed says that those of one line come from
// the last to the first.
func (s *scanner) records(lines iter.Seq2[line, error], reversed bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var (
			groups      [aheadGroups]group
			last        int // the group that lines are added to
			count, size int // of all lines
			limit       = 1
			decoding    sync.WaitGroup
		)
		give := func() bool {
			groups[last].decode(s, reversed)
			decoding.Wait()
			for i := range groups[:last+1] {
				for _, rec := range groups[i].recs {
					if !yield(rec, nil) {
						return false
					}
				}
				groups[i].lines, groups[i].recs = groups[i].lines[:0], groups[i].recs[:0]
			}
			if last, count, size = 0, 0, 0; s.native {
				limit = min(2*limit, groupLines*aheadGroups)
			}
			return true
		}
		for l, err := range lines {
			if err != nil {
				if give() {
					yield(Record{}, err)
				}
				return
			}
			g := &groups[last]
			g.lines = append(g.lines, l)
			count, size = count+1, size+len(l.text)
			switch {
			case count == limit || size >= aheadBytes:
				if !give() {
					return
				}
			case len(g.lines) == groupLines:
				decoding.Go(func() { g.decode(s, reversed) })
				last++
			}
		}
		give()
	}
}

func (g *group) decode(s *scanner, reversed bool) {
	g.recs = slices.Grow(g.recs, len(g.lines))
	for _, l := range g.lines {
		n := len(g.recs)
		if g.recs = s.appendRecords(g.recs, l); reversed {
			slices.Reverse(g.recs[n:])
		}
	}
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
