package words

import "bytes"

// Literals are texts to be found in lines of JSON, byte by byte. They do not
// change and may be used by several goroutines.
type Literals []segment

// NewLiterals returns literals, none of which may be empty.
func NewLiterals(texts ...string) Literals {
	list := make(Literals, len(texts))
	for i, text := range texts {
		s := &list[i]
		s.size = min(len(text), maxSegment)
		for i, b := range []byte(text[:s.size]) {
			s.masks[b] |= 1 << i
		}
		s.prepare()
	}
	return list
}

// In reports whether lines of JSON may contain a literal. It never misses a
// line that does, even if it writes a letter as \u0061.
func (list Literals) In(raw []byte) bool {
	for i := range list {
		if list[i].in(raw) {
			return true
		}
	}
	return anyEscape(raw, func(hex []byte) bool { return string(hex[:2]) == "00" && hex[2] >= '2' && hex[2] <= '7' })
}

// hidesLetters reports whether lines of JSON have a character in the form
// \u0061, other than those that every encoder writes so: a control character or a
// line separator.
func hidesLetters(raw []byte) bool {
	return anyEscape(raw, func(hex []byte) bool {
		control := bytes.HasPrefix(hex, []byte("000")) || bytes.HasPrefix(hex, []byte("001"))
		separator := string(hex) == "2028" || string(hex) == "2029"
		return !control && !separator
	})
}

// anyEscape reports whether is accepts the four digits of any escape \u0061 in
// lines of JSON.
func anyEscape(raw []byte, is func(hex []byte) bool) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+6 > len(raw) {
			return false
		}
		if raw[i+1] == 'u' && is(raw[i+2:i+6]) {
			return true
		}
		raw = raw[i+2:]
	}
}
