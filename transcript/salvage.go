package transcript

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/convolog/convolog/internal/jsontext"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

const blanks = " \t\r\n"

// maxRecords limits the records taken from one line. One is normal and two or
// three occur; more would only cost memory.
const maxRecords = 1000

// salvage appends the records of a line that is not exactly one native entry.
func (s *scanner) salvage(recs []Record, l line) []Record {
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
		// In most cases n covers all of the text. If it does not, the line
		// holds several records, or it is torn and its brackets prove nothing.
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

// glued returns the index of a whole record at the end of text, after a torn
// one, or 0. It searches from the right, where a candidate inside the record
// fails at its first bracket, and tries candidates that begin as records do
// first. It gives up after reading the text a few times over, so a hostile line
// costs linear time.
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

// apart reports whether record was written after torn, the record before it,
// and is not a value inside it. This is certain unless torn ends where a value
// begins. Programs that fence torn records with a newline, as this module does,
// then leave a fragment of the torn record more often than a record glued to
// it. A value inside a record existed before the record, so the order of times
// and IDs decides.
func (s *scanner) apart(torn, record []byte) bool {
	if !s.native || !endsBeforeValue(torn) {
		return true
	}
	if !jsontext.IsObject(torn) {
		return false
	}
	a, b := stamp(torn), stamp(record)
	if c := b.Time.Compare(a.Time); c != 0 {
		return c > 0
	}
	return b.ID > a.ID
}

// stamp decodes the ID and the time of a record that may be torn.
func stamp(record []byte) (e Entry) {
	var c codec
	c.object(record, func() {
		c.optStr("id", &e.ID)
		c.optTime("ts", &e.Time)
	})
	return e
}

// endsBeforeValue reports whether torn, the beginning of a JSON value, ends
// where a value would begin.
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
				return false // in a string, or right after it
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
