package transcript

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/convolog/convolog/internal/jsontext"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

const blanks = " \t\r\n"

// maxRecords is how many records of one line are told apart: one is meant, two
// or three happen, and the memory for more would be in nobody's interest.
const maxRecords = 1000

// appendRecords appends what a line holds, in order.
func (s *scanner) appendRecords(recs []Record, l line) []Record {
	if !l.terminated && !s.Final {
		return recs
	}
	if n := len(l.text); s.native && n > 0 && l.text[0] == '{' && l.text[n-1] == '}' {
		// In a native transcript nearly always one entry and nothing else.
		if e, err := decodeEntry(l.text[:n:n]); err == nil {
			return append(recs, s.record(e, l.offset, l.end))
		}
	}
	before := len(recs)
	damage := func(offset int64, size int, kind DamageKind, reason string) {
		d := &Damage{Kind: kind, Offset: offset, Size: int64(size), Reason: reason}
		recs = append(recs, Record{Offset: offset, End: l.end, Damage: d})
	}
	if l.tooLong {
		damage(l.offset, int(l.size()), DamageTooLong, "")
		return recs
	}
	text, offset := l.text, l.offset
	drop := func(n int) { text, offset = text[n:], offset+int64(n) }
	if bytes.HasPrefix(text, byteOrderMark) {
		drop(len(byteOrderMark))
	}
	text = bytes.TrimRight(text, blanks)
	tail := len(text)
	text = bytes.TrimRight(text, "\x00")
	tail -= len(text)
	text = bytes.TrimRight(text, blanks)

	for {
		drop(len(text) - len(bytes.TrimLeft(text, blanks)))
		if len(text) == 0 {
			break
		}
		if len(recs)-before >= maxRecords {
			damage(offset, len(text), DamageMalformed, "too many records on one line")
			break
		}
		if n := len(text) - len(bytes.TrimLeft(text, "\x00")); n > 0 {
			damage(offset, n, DamageNUL, "")
			drop(n)
			continue
		}
		n := len(text)
		if text[0] == '{' {
			n = jsontext.Skip(text, 0)
		}
		// Nearly always all of the text. Otherwise it is the first of several
		// records, or the brackets mean nothing because something is torn.
		e, err := s.Decode(text[:n:n], offset)
		if err == nil {
			recs = append(recs, s.record(e, offset, l.end))
			drop(n)
			continue
		}
		kind, reason := DamageMalformed, err.Error()
		if de, ok := errors.AsType[*DamageError](err); ok {
			kind, reason = de.Kind, de.Reason
		}
		if !json.Valid(text[:n]) {
			if n = s.glued(text); n == 0 {
				n = len(text)
			}
			kind, reason = classify(text[:n]), ""
		}
		damage(offset, n, kind, reason)
		drop(n)
	}
	if tail > 0 {
		damage(l.offset+int64(bytes.LastIndexByte(l.text, 0)+1-tail), tail, DamageNUL, "")
	}
	return recs
}

// record returns the record of an entry, with damage if the entry is native and
// does not agree with its checksum.
func (s *scanner) record(e Entry, offset, end int64) Record {
	r := Record{Offset: offset, End: end, Entry: e}
	if s.native && !Intact(e.line) {
		r.Damage = &Damage{Kind: DamageCRC, Offset: offset, Size: int64(len(e.line)), Reason: "the " + e.Type() + " entry is kept"}
	}
	return r
}

// glued returns the index of a whole record that ends the text, behind a torn
// one; 0 if there is none. It looks from the right, where a candidate that is
// a piece of the record fails at its first bracket; candidates that begin the
// way records do come first. It stops after having read the text a few times
// over, so hostile lines cost linear time.
func (s *scanner) glued(text []byte) int {
	if !bytes.HasSuffix(text, []byte("}")) {
		return 0
	}
	for _, start := range []string{`"type"`, `"`} {
		budget := 8 * len(text)
		for i := len(text); budget > 0; {
			if i = bytes.LastIndexByte(text[:i], '{'); i <= 0 {
				break
			}
			rest := text[i:]
			budget--
			if !bytes.HasPrefix(bytes.TrimLeft(rest[1:], blanks), []byte(start)) {
				continue
			}
			n := jsontext.Skip(rest, 0)
			budget -= n
			if n < len(rest) {
				continue
			}
			budget -= n
			if jsontext.Valid(rest) && s.Genuine(bytes.Clone(rest)) && s.apart(text[:i], rest) {
				return i
			}
		}
	}
	return 0
}

// apart reports whether record, which follows torn, was written after it and
// is not a value inside of it. This is sure unless torn ends where a value
// begins. Programs that fence torn records, as ours do, then leave a piece of
// the torn record more often than a record glued to it; what was inside of a
// record existed before it, so the order of times and IDs decides.
func (s *scanner) apart(torn, record []byte) bool {
	if !s.native || !endsBeforeValue(torn) {
		return true
	}
	if !jsontext.IsObject(torn) {
		return false
	}
	var a, b Entry
	m := members{ok: true}
	for name, v := range jsontext.Members(torn) {
		m.stamp(&a, name, v)
	}
	for name, v := range jsontext.Members(record) {
		m.stamp(&b, name, v)
	}
	if c := b.Time.Compare(a.Time); c != 0 {
		return c > 0
	}
	return b.ID > a.ID
}

func (m *members) stamp(e *Entry, name string, v []byte) {
	switch name {
	case "id":
		m.str(&e.ID, v)
	case "ts":
		m.time(&e.Time, v)
	}
}

// endsBeforeValue reports whether the next token of the beginning of a JSON
// value, torn, would be a value.
func endsBeforeValue(torn []byte) bool {
	var open []byte // the brackets
	last := byte(0) // the last token, or its first byte
	for i := 0; i < len(torn); i++ {
		c := torn[i]
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			end := jsontext.Skip(torn, i)
			if end == len(torn) {
				return false // in a string, or right behind it
			}
			i = end - 1
		case '{', '[':
			open = append(open, c)
		case '}', ']':
			if len(open) == 0 {
				return false
			}
			open = open[:len(open)-1]
		}
		last = c
	}
	return last == ':' || last == '[' || last == ',' && len(open) > 0 && open[len(open)-1] == '['
}
