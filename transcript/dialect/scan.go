package dialect

import (
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// Scan yields the records of a transcript in dialect d in the order of its
// lines, ready for a fold: facts that the dialect expresses by other means (a
// tree, repeated messages, numbers of lines) are in the entries. Of opts only
// Final and MaxLine count; nil is as for transcript.Scan.
//
// A line that holds several entries, a message of OpenViking with a finished
// tool part for example, yields several records with the same offset and line;
// their entries are a batch.
//
// A record that its program has moved before others, as ZyHive does when it
// trims a file, is yielded where it was.
//
// Dialects whose lines depend on later ones are read twice. Memory is bounded
// by the longest line and, for those, by an index of some 100 bytes a line.
//
// The sequence may be ranged over several times. It ends after the first pair
// with an error: an error of r, an unknown d, or for ZyHiveLog one that matches
// [ErrChannelLog].
func (d Dialect) Scan(r io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
	var o transcript.ScanOptions
	if opts != nil {
		o.Final, o.MaxLine = opts.Final, opts.MaxLine
	}
	if own, err := d.ScanOptions(); err == nil {
		own.Final, own.MaxLine = o.Final, o.MaxLine
		return transcript.Scan(r, size, own)
	}
	return func(yield func(transcript.Record, error) bool) {
		if d == ZyHiveLog {
			yield(transcript.Record{}, fmt.Errorf("dialect: %w", ErrChannelLog))
			return
		}
		open := programs[d]
		if open == nil {
			yield(transcript.Record{}, fmt.Errorf("dialect: cannot read %q", string(d)))
			return
		}
		member, err := d.member(r, size)
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		f := open() // a new one for each loop, since it learns
		records := scanForm(r, size, o, f)
		if member != "" {
			records = d.scanDocument(r, size, member, o)
		}
		for rec, err := range records {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// scanForm yields the records that f reads. It is for one loop.
func scanForm(r io.ReaderAt, size int64, o transcript.ScanOptions, f program) iter.Seq2[transcript.Record, error] {
	return scanSource(func() iter.Seq2[found, error] { return scan(r, size, o, f) }, f)
}

func scanSource(source func() iter.Seq2[found, error], f program) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		p, twice := f.(planner)
		if twice {
			for found, err := range source() {
				if err != nil {
					yield(transcript.Record{}, err)
					return
				}
				if found.Damage == nil {
					p.Learn(found.members, found.Offset, found.made)
				}
			}
			p.Settle()
		}
		give := func(at found) bool {
			made := at.made
			if twice {
				made = p.Place(at.Offset, made)
			}
			line := at.Entry.Line()
			for i, e := range made {
				if len(made) > 1 {
					if e.Part = i + 1; i == 0 {
						e.Batch, e.Part = len(made), 0
					}
				}
				rec := at.Record
				rec.Entry = e.WithLine(line)
				if !yield(rec, nil) {
					return false
				}
			}
			return true
		}
		m, moves := f.(mover)
		var later []found // to be yielded before another one
		due := func(offset int64) bool {
			n := 0
			for _, l := range later {
				if before, _ := m.Delay(l.Offset); before > offset {
					later[n] = l
					n++
				} else if !give(l) {
					return false
				}
			}
			later = later[:n]
			return true
		}
		for at, err := range source() {
			if err != nil || at.Damage != nil {
				if !yield(at.Record, err) || err != nil {
					return
				}
				continue
			}
			if moves {
				if !due(at.Offset) {
					return
				}
				if _, ok := m.Delay(at.Offset); ok {
					later = append(later, at)
					continue
				}
			}
			if !give(at) {
				return
			}
		}
		if moves {
			due(math.MaxInt64)
		}
	}
}

// found is a record with the entries its program made.
type found struct {
	transcript.Record
	members fields.Record
	made    []transcript.Entry
}

func scan(r io.ReaderAt, size int64, opts transcript.ScanOptions, f program) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		line := map[int64]found{} // the records of the line at hand, by offset
		opts.Decode = func(text []byte, offset int64) (transcript.Entry, error) {
			members, err := fields.Parse(text)
			if err != nil {
				return transcript.Entry{}, err
			}
			made, err := f.Decode(members, offset)
			if err != nil {
				return transcript.Entry{}, err
			}
			made[0] = made[0].WithLine(text)
			line[offset] = found{members: members, made: made}
			return made[0], nil
		}
		opts.Genuine = func(object []byte) bool {
			members, err := fields.Parse(object)
			return err == nil && f.Genuine(members)
		}
		for rec, err := range transcript.Scan(r, size, &opts) {
			at := line[rec.Offset]
			delete(line, rec.Offset)
			at.Record = rec
			if !yield(at, err) {
				return
			}
		}
	}
}
