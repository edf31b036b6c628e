// Package words takes texts apart into the terms that a search compares: words
// of any script, identifiers whole and in parts, and pairs of characters where
// a script puts no spaces between words.
//
// A term is folded: letters are lower case, full-width forms are the usual ones.
// Terms of a query and of a text are compared byte by byte.
package words

import (
	"unicode"
	"unicode/utf8"
)

// A Term is a piece of a text.
type Term struct {
	Text string // folded
	// Start and End are the place in the text that it stands for, in bytes.
	Start, End int
	// Part says that it is a part of the term before it that is no Part: a word
	// of an identifier, or all but the first pair of a run of characters.
	Part bool
}

// maxTerm is how many bytes a term has at most. What is longer is base64 or the
// like: only its parts count.
const maxTerm = 128

// All yields the terms of a text in order, until yield returns false. The text
// of a term is valid only during the call, unless it is copied.
//
// "getUserByID" gives getuserbyid and its parts get, user, by and id;
// "prod-eu-17" gives prod-eu-17, prod, eu and 17; a run of Chinese characters
// gives each pair of neighbours, a single one itself.
func All(text string, yield func(Term) bool) {
	s := splitter{text: text, yield: yield}
	for s.at < len(text) && !s.done {
		r, size := s.rune(s.at)
		switch class(r) {
		case classWord:
			s.word()
		case classRun:
			s.run()
		default:
			s.at += size
		}
	}
}

type splitter struct {
	text  string
	at    int
	yield func(Term) bool
	done  bool
	buf   []byte // of the last term
}

func (s *splitter) rune(at int) (rune, int) {
	if c := s.text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s.text[at:])
}

// A classOf says how a character takes part in terms.
type classOf int

const (
	classNone   classOf = iota
	classWord           // letters, digits and marks
	classRun            // letters of scripts without spaces between words
	classJoiner         // joins words to identifiers and paths
)

func class(r rune) classOf {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return classWord
	case r == '_', r == '-', r == '.', r == '/', r == ':', r == '@', r == '+', r == '#':
		return classJoiner
	case r < utf8.RuneSelf:
		return classNone
	case r == 'ー' || r == 'ｰ' || unicode.In(r, runScripts...): // these two belong to no script
		return classRun
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
		return classWord
	}
	return classNone
}

// runScripts put no spaces between words, or, as Korean, join particles to them.
var runScripts = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// word yields the identifier that begins here, whole and in parts. A joiner
// belongs to it if a word follows.
func (s *splitter) word() {
	start, end := s.at, s.at
	joined := false
	for end < len(s.text) {
		r, size := s.rune(end)
		switch class(r) {
		case classWord:
			end += size
			continue
		case classJoiner:
			if next := end + size; next < len(s.text) {
				if r, _ := s.rune(next); class(r) == classWord {
					end, joined = next, true
					continue
				}
			}
		}
		break
	}
	s.at = end
	whole := end-start <= maxTerm
	if whole {
		s.put(start, end, false)
	}
	first := !whole
	s.parts(start, end, func(from, to int) {
		if from == start && to == end {
			return
		}
		if to-from <= maxTerm {
			s.put(from, to, !first)
			first = false
		}
	}, joined)
}

// parts calls part for each word between joiners and, within it, for each part
// that a change of case or from letters to digits begins.
func (s *splitter) parts(start, end int, part func(from, to int), joined bool) {
	for from := start; from < end; {
		to := from
		for to < end {
			r, size := s.rune(to)
			if class(r) != classWord {
				break
			}
			to += size
		}
		s.camel(from, to, part, joined)
		from = to
		for from < end {
			r, size := s.rune(from)
			if class(r) == classWord {
				break
			}
			from += size
		}
	}
}

// camel calls part for a word, and for its parts if there are several.
func (s *splitter) camel(start, end int, part func(from, to int), joined bool) {
	if joined {
		part(start, end)
	}
	from, prev := start, rune(0)
	for at := start; at < end; {
		r, size := s.rune(at)
		next := rune(0)
		if at+size < end {
			next, _ = s.rune(at + size)
		}
		if at > from && begins(prev, r, next) {
			part(from, at)
			from = at
		}
		prev = r
		at += size
	}
	if from > start {
		part(from, end)
	}
}

// begins reports whether a part of a word begins at r, between prev and next.
func begins(prev, r, next rune) bool {
	switch {
	case unicode.IsDigit(r) != unicode.IsDigit(prev):
		return !unicode.IsMark(r)
	case unicode.IsUpper(r) && unicode.IsLower(prev):
		return true
	case unicode.IsUpper(r) && unicode.IsUpper(prev) && unicode.IsLower(next):
		return true
	}
	return false
}

// run yields the pairs of neighbours in a run of characters. A mark belongs to
// the character in front of it.
func (s *splitter) run() {
	var starts [3]int // of the last characters, and where the next one begins
	n := 0
	begin := s.at
	for s.at < len(s.text) && !s.done {
		r, size := s.rune(s.at)
		if c := class(r); c != classRun && !(c == classWord && unicode.IsMark(r)) {
			break
		}
		if !unicode.IsMark(r) {
			if n >= 2 {
				s.put(starts[0], s.at, starts[0] > begin)
				starts[0] = starts[1]
				n--
			}
			starts[n] = s.at
			n++
		}
		s.at += size
	}
	if n > 0 && !s.done {
		s.put(starts[0], s.at, starts[0] > begin)
	}
	if n == 0 { // a mark alone
		return
	}
}

// put yields a term.
func (s *splitter) put(start, end int, part bool) {
	if s.done {
		return
	}
	s.buf = Fold(s.buf[:0], s.text[start:end])
	if len(s.buf) > 0 && !s.yield(Term{string(s.buf), start, end, part}) {
		s.done = true
	}
}

// Fold appends the folded form of a text.
func Fold(dst []byte, text string) []byte {
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r < utf8.RuneSelf:
		case 0xff01 <= r && r <= 0xff5e: // full-width ASCII
			r = unicode.ToLower(r - 0xff01 + '!')
		case r == 0x3000:
			r = ' '
		default:
			r = fold(r)
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// fold returns one character for all that differ by case alone.
func fold(r rune) rune {
	low := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		low = min(low, next)
	}
	return unicode.ToLower(low)
}
