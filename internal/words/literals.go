package words

import "bytes"

// Literals are texts to find in lines of JSON by their bytes. They are immutable, so
// several goroutines may use them.
type Literals []segment

// NewLiterals returns literals. The texts must not be empty.
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

// In reports whether lines of JSON may contain a literal. It never misses a line that
// contains one, even if the line spells a letter as \u0061.
func (list Literals) In(raw []byte) bool {
	for i := range list {
		if list[i].in(raw) {
			return true
		}
	}
	return anyEscape(raw, func(hex []byte) bool { return string(hex[:2]) == "00" && hex[2] >= '2' && hex[2] <= '7' })
}

// hidesLetters reports whether lines of JSON contain an escape such as \u0061 for a
// character that encoders need not escape. They escape control characters and line
// separators.
func hidesLetters(raw []byte) bool {
	return anyEscape(raw, func(hex []byte) bool {
		control := bytes.HasPrefix(hex, []byte("000")) || bytes.HasPrefix(hex, []byte("001"))
		separator := string(hex) == "2028" || string(hex) == "2029"
		return !control && !separator
	})
}

// anyEscape reports whether lines of JSON contain an escape such as \u0061 whose four
// digits is accepts.
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
