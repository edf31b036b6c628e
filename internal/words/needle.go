package words

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A needle is a folded text to be found in others. It matches texts that fold
// alike; white space in it matches any white space.
type needle struct {
	runes []rune
	// begins and ends are set if the place in a text must be a boundary there.
	begins, ends bool

	seg    segment  // the longest part of it that JSON does not escape
	lead   segment  // its beginning
	others []string // forms of characters that take another number of bytes
	wide   segment  // the full-width or half-width ones
}

// A segment is sought as bytes: masks has a bit for each of its places that a
// byte may take, shift is the distance to move if that byte is under the last
// place, 0 if it fits there.
type segment struct {
	size  int
	masks [256]uint64
	shift [256]uint8
}

const maxSegment = 48

func newNeedle(text string, begins, ends bool) *needle {
	n := &needle{runes: []rune(string(Fold(nil, strings.Join(strings.Fields(text), " ")))), begins: begins, ends: ends}
	var parts [][]rune
	from := 0
	for i, r := range n.runes {
		if r == ' ' || r == '"' || r == '\\' || r == '/' || unicode.IsControl(r) || r == utf8.RuneError {
			parts = append(parts, n.runes[from:i])
			from = i + 1
		}
	}
	parts = append(parts, n.runes[from:])
	longest := 0
	for i, p := range parts {
		if len(string(p)) > len(string(parts[longest])) {
			longest = i
		}
	}
	seen := map[string]bool{}
	n.seg = n.segment(parts[longest], seen)
	lead := n.runes
	for i, r := range lead {
		if r == ' ' || r == utf8.RuneError {
			lead = lead[:i]
			break
		}
	}
	n.lead = n.segment(lead, seen)
	n.wide.prepare()
	return n
}

// segment builds a segment from characters. Spellings of a character that take a
// different number of bytes are kept apart, in others.
func (n *needle) segment(runes []rune, seen map[string]bool) segment {
	var s segment
	for _, r := range runes {
		size := utf8.RuneLen(r)
		if s.size+size > maxSegment {
			break
		}
		for _, f := range forms(r) {
			if utf8.RuneLen(f) != size {
				switch {
				case seen[string(f)]:
				case f >= 0xff01 && f <= 0xffdc:
					n.wide.size = 3
					for i, b := range []byte(string(f)) {
						n.wide.masks[b] |= 1 << i
					}
				default:
					n.others = append(n.others, string(f))
				}
				seen[string(f)] = true
				continue
			}
			for i, b := range []byte(string(f)) {
				s.masks[b] |= 1 << (s.size + i)
			}
		}
		s.size += size
	}
	s.prepare()
	return s
}

func (s *segment) prepare() {
	for b := range s.shift {
		s.shift[b] = uint8(s.size)
		for at := range s.size {
			if s.masks[b]&(1<<at) != 0 {
				s.shift[b] = uint8(s.size - 1 - at)
			}
		}
	}
}

// find returns the first place from from on that may be the segment, or -1.
// Every byte of it fits, though not all of one form.
func find[T string | []byte](s *segment, text T, from int) int {
	last := s.size - 1
	if last < 0 {
		return -1
	}
	for at := from + last; at < len(text); {
		step := int(s.shift[text[at]])
		if step == 0 {
			if endsAt(s, text, at) {
				return at - last
			}
			step = 1
		}
		at += step
	}
	return -1
}

// endsAt reports whether the segment may end at a place of a text, whose byte fits.
func endsAt[T string | []byte](s *segment, text T, at int) bool {
	i := s.size - 2
	for at--; i >= 0 && s.masks[text[at]]&(1<<i) != 0; at-- {
		i--
	}
	return i < 0
}

// in reports whether find finds the segment in bytes. It goes through both halves
// in turn, because each step has to wait for the one before it.
func (s *segment) in(raw []byte) bool {
	a, half := s.size-1, len(raw)/2
	if half < s.size {
		return find(s, raw, 0) >= 0
	}
	b := half
	for a < half && b < len(raw) {
		i, j := int(s.shift[raw[a]]), int(s.shift[raw[b]])
		if i == 0 {
			if endsAt(s, raw, a) {
				return true
			}
			i = 1
		}
		if j == 0 {
			if endsAt(s, raw, b) {
				return true
			}
			j = 1
		}
		a, b = a+i, b+j
	}
	return find(s, raw[:half], a-s.size+1) >= 0 || find(s, raw, b-s.size+1) >= 0
}

// hasOther reports whether a text may have a form of one of the needle's
// characters that takes another number of bytes.
func hasOther[T string | []byte](n *needle, text T) bool {
	for _, other := range n.others {
		if contains(text, other) {
			return true
		}
	}
	return n.wide.size > 0 && contains(text, "\xef") && find(&n.wide, text, 0) >= 0
}

func contains[T string | []byte](text T, part string) bool {
	switch text := any(text).(type) {
	case string:
		return strings.Contains(text, part)
	case []byte:
		return bytes.Contains(text, []byte(part))
	}
	return true
}

// mayHave reports whether lines of JSON may have the text in one of their
// strings. It is true for all lines that do.
func (n *needle) mayHave(raw []byte) bool {
	return n.seg.size == 0 || n.seg.in(raw) || hasOther(n, raw)
}

// isSlow reports whether every character of a text must be examined, because
// bytes do not show where the needle may be.
func (n *needle) isSlow(text string) bool { return n.lead.size == 0 || hasOther(n, text) }

// in returns the first place of the needle in a text from from on; start may be
// -1.
func (n *needle) in(text string, from int, slow bool) (start, end int) {
	for at := from; at <= len(text); {
		if !slow {
			if at = find(&n.lead, text, at); at < 0 {
				break
			}
		}
		if at == len(text) {
			break
		}
		if end := n.fits(text, at); end >= 0 {
			return at, end
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return -1, -1
}

// fits returns where the needle ends if it begins at a place of a text; -1 if it
// does not.
func (n *needle) fits(text string, at int) int {
	if n.begins && !Boundary(text, at) {
		return -1
	}
	for _, want := range n.runes {
		r, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 {
			return -1
		}
		if want == ' ' {
			if !unicode.IsSpace(r) {
				return -1
			}
			for size > 0 && unicode.IsSpace(r) {
				at += size
				r, size = utf8.DecodeRuneInString(text[at:])
			}
			continue
		}
		if r != want && fold(r) != want {
			return -1
		}
		at += size
	}
	if n.ends && !Boundary(text, at) {
		return -1
	}
	return at
}
