package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A needle is a folded text to find in other texts. It matches texts with the same folded
// form. White space in a needle matches any white space.
type needle struct {
	text string
	key  []rune
	fold *folding
	// begins and ends are set if a match must begin or end at a boundary.
	begins, ends bool

	seg  segment // the longest part of the text that JSON does not escape
	lead segment // the beginning of the text
	odd  oddity
}

// A segment is a text to find by its bytes. masks holds for each byte a bit for each place
// of the segment that the byte may take. shift is the distance to move if the byte is at
// the last place, and 0 if the byte fits there.
type segment struct {
	size  int
	masks [256]uint64
	shift [256]uint8
}

const maxSegment = 48

func newNeedle(text string, begins, ends bool) *needle {
	t := theFolding()
	text = Fold(strings.Join(strings.Fields(text), " "))
	n := &needle{text: text, key: t.key(text), fold: t, begins: begins, ends: ends}
	t.addOdd(&n.odd, n.key)
	longest := ""
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r == ' ' || r == '"' || r == '\\' || r == '/' || unicode.IsControl(r) || r == utf8.RuneError
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	n.seg = t.segment(longest)
	lead := text
	if i := strings.IndexFunc(text, func(r rune) bool { return r == ' ' || r == utf8.RuneError }); i >= 0 {
		lead = text[:i]
	}
	if !mayJoin(n.first()) {
		n.lead = t.segment(lead)
	}
	return n
}

// segment builds a segment that matches the usual forms of characters and other forms with
// the same number of bytes.
func (t *folding) segment(text string) segment {
	var s segment
	var key []rune
	for _, r := range text {
		size := utf8.RuneLen(r)
		if s.size+size > maxSegment {
			break
		}
		key, _ = t.next(key[:0], string(r))
		for _, f := range slices.Concat([]rune{r, unicode.ToUpper(r)}, t.alike[string(key)]) {
			if utf8.RuneLen(f) != size {
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

// find returns the first place at or after from that may be the segment, or -1. Every byte
// of the place fits, but the bytes may be from different forms.
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

// endsAt reports whether the segment may end at a place of a text. The byte at the place
// must fit the last place of the segment.
func endsAt[T string | []byte](s *segment, text T, at int) bool {
	i := s.size - 2
	for at--; i >= 0 && s.masks[text[at]]&(1<<i) != 0; at-- {
		i--
	}
	return i < 0
}

// in reports whether find finds the segment in bytes. It scans both halves alternately,
// because each step depends on the previous step in the same half.
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

// mayHave reports whether a string in lines of JSON may contain the text. It never misses
// a line that contains the text.
func (n *needle) mayHave(raw []byte) bool { return n.inBytes(raw) || isOdd(&n.odd, raw) }

// inBytes is like mayHave for lines without odd characters.
func (n *needle) inBytes(raw []byte) bool { return n.seg.size == 0 || n.seg.in(raw) }

// first returns the first character of the key, or 0.
func (n *needle) first() rune {
	if len(n.key) == 0 {
		return 0
	}
	return n.key[0]
}

// isSlow reports whether a search must examine every character of a text, because a
// search for bytes could miss the needle.
func (n *needle) isSlow(text string) bool { return n.lead.size == 0 || isOdd(&n.odd, text) }

// in returns the first place of the needle in a text at or after from. If there is no such
// place, start is -1.
func (n *needle) in(text string, from int, slow bool) (start, end int) {
	var buf [16]rune
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
		// Past the marks too: no needle begins at one, and a long run of them is read once.
		_, size := n.fold.next(buf[:0], text[at:])
		at += size
	}
	return -1, -1
}

// fits returns the end of the needle if the needle begins at a place of a text, and
// otherwise -1.
func (n *needle) fits(text string, at int) int {
	if n.begins && !Boundary(text, at) {
		return -1
	}
	var buf [16]rune
	start := at
	for want := n.key; len(want) > 0; {
		r, size := utf8.DecodeRuneInString(text[at:])
		key := buf[:0]
		switch after := at + size; {
		case size == 0:
			return -1
		case r < utf8.RuneSelf && (after == len(text) || text[after] < utf8.RuneSelf):
			key = append(key, low(r))
		default:
			key, size = n.fold.next(key, text[at:])
		}
		switch {
		case want[0] == ' ' && unicode.IsSpace(r):
			for size > 0 && (unicode.IsSpace(r) || isIgnored(r)) {
				at += size
				r, size = utf8.DecodeRuneInString(text[at:])
			}
			want = want[1:]
			continue
		case len(key) == 0 && at == start:
			return -1
		case len(key) > len(want) || !slices.Equal(key, want[:len(key)]):
			return -1
		}
		at, want = at+size, want[len(key):]
	}
	if n.ends && !Boundary(text, at) {
		return -1
	}
	return at
}
