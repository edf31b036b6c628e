package words

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// formsText has a line for each sequence into which other characters decompose: the
// sequence, a space, the other characters. internal/wordstest makes the file.
//
//go:embed forms.txt
var formsText string

// moreForms are signs that people use for one another.
const moreForms = "' \u2018\u2019\u201b\u02bc\n- \u2010\n"

// A folding maps each character to its key: the parts of the character, without case.
type folding struct {
	pages [0x20000 >> 6]*[64]uint16 // indexes of keys; 0 if the character is its own key
	keys  [][]rune
	// alike maps a key to the other characters with this key.
	alike map[string][]rune
	// whole maps the key of a letter with marks to the letter as one character.
	whole   map[string]rune
	longest int // the length of the longest key, in runes
}

// theFolding returns the only folding, and makes it at the first call.
var theFolding = sync.OnceValue(load)

func load() *folding {
	t := &folding{keys: make([][]rune, 1), alike: make(map[string][]rune, 1<<12), whole: make(map[string]rune, 1<<10)}
	for line := range strings.Lines(moreForms + formsText) {
		parts, list, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		parts = strings.Map(lowest, parts)
		var key []rune
		for parts != "" {
			var size int
			key, size = t.next(key, parts)
			parts = parts[size:]
		}
		t.add(key, []rune(list)...)
	}
	for _, c := range unicode.CaseRanges {
		for r := rune(c.Lo); r <= rune(c.Hi); r++ {
			if first := lowest(r); first != r && r >= utf8.RuneSelf && t.at(r) == 0 {
				t.add([]rune{first}, r)
			}
		}
	}
	return t
}

func (t *folding) add(key []rune, list ...rune) {
	for _, r := range list {
		page := &t.pages[r>>6]
		if *page == nil {
			*page = new([64]uint16)
		}
		(*page)[r&63] = uint16(len(t.keys))
		t.alike[string(key)] = append(t.alike[string(key)], r)
		isLower := unicode.ToLower(r) == r
		if old := t.whole[string(key)]; isLetter(key) && (old == 0 || isLower && (unicode.ToLower(old) != old || r < old)) {
			t.whole[string(key)] = r
		}
	}
	t.keys = append(t.keys, key)
	t.longest = max(t.longest, len(key))
}

// isLetter reports whether a key is one letter with marks.
func isLetter(key []rune) bool {
	return len(key) > 1 && !isAccent(key[0]) && accentsOf(key[1:]) == len(key)-1
}

// at returns the index of the key of a character, or 0 if the character is its own key.
func (t *folding) at(r rune) uint16 {
	if page := r >> 6; int(page) < len(t.pages) && t.pages[page] != nil {
		return t.pages[page][r&63]
	}
	return 0
}

// lowest returns the same character for all characters that differ only in case.
func lowest(r rune) rune {
	first := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		first = min(first, next)
	}
	return low(first)
}

// low returns an ASCII character in lower case, and any other character unchanged.
func low(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		r += 'a' - 'A'
	}
	return r
}

// mostMarks is the number of marks of a letter that are sorted together. It is the largest
// number of marks in a stream-safe Unicode text. Sorting all at once takes quadratic time.
const mostMarks = 30

// next appends the key of the first character of a text and of its marks, and returns the
// size of these characters. The key of an ignored first character is empty.
func (t *folding) next(key []rune, text string) (_ []rune, size int) {
	r, size := utf8.DecodeRuneInString(text)
	from := len(key)
	switch i := t.at(r); {
	case isIgnored(r):
	case r < utf8.RuneSelf:
		key = append(key, low(r))
	case i > 0:
		key = append(key, t.keys[i]...)
	default:
		key = append(key, r)
	}
	if unicode.IsSpace(r) {
		return key, size
	}
	marks := len(key) // the place of the first accent
	for marks > from && isAccent(key[marks-1]) {
		marks--
	}
	for size < len(text) && text[size] >= utf8.RuneSelf {
		m, n := utf8.DecodeRuneInString(text[size:])
		base := rune(0)
		if len(key) > from {
			base = key[len(key)-1]
		}
		switch {
		case isIgnored(m) || hides(base, m):
		case base == 0:
			return key, size
		case syllable(base, m) != 0:
			key[len(key)-1] = syllable(base, m)
		case isAccent(m):
			accent := []rune{m}
			if i := t.at(m); i > 0 {
				accent = t.keys[i]
			}
			for _, m := range accent {
				key = append(key, m)
				i := len(key) - 1
				for group := i - (i-marks)%mostMarks; i > group && key[i-1] > m; i-- {
					key[i-1], key[i] = m, key[i-1]
				}
			}
		default:
			return key, size
		}
		size += n
	}
	return key, size
}

// hides reports whether a mark on a character is left out: a point of Arabic or Hebrew, a
// skin tone, or a variant of a sign.
func hides(base, mark rune) bool {
	return unicode.Is(points, mark) && takesPoints(base) ||
		unicode.Is(tones, mark) && unicode.Is(emoji, base) ||
		unicode.Is(variants, mark) && takesVariants(base)
}

// joins reports whether a character belongs to the previous character.
func joins(base, r rune) bool { return isAccent(r) || hides(base, r) || syllable(base, r) != 0 }

func takesPoints(base rune) bool { return 0x5d0 <= base && base <= 0x8ff }

func takesVariants(base rune) bool { return base >= 0x2000 } // signs and Han

// isIgnored reports whether a character is always invisible.
func isIgnored(r rune) bool { return r >= 0xad && unicode.Is(ignored, r) }

// mayJoin reports whether some texts have a character as a part of the one before it.
func mayJoin(r rune) bool {
	return isAccent(r) || unicode.In(r, points, tones, variants) || 0x1161 <= r && r < 0x11c3 // parts of a syllable
}

// isAccent reports whether a mark turns the previous letter into another letter.
func isAccent(r rune) bool { return r >= 0x300 && unicode.Is(accents, r) }

// accentsOf returns the number of accents at the beginning of a key.
func accentsOf(key []rune) (n int) {
	for n < len(key) && isAccent(key[n]) {
		n++
	}
	return n
}

// syllable returns the Hangul syllable that base and the next part form, or 0 if they form
// none.
func syllable(base, part rune) rune {
	const first, vowel, final, whole = 0x1100, 0x1161, 0x11a7, 0xac00
	const vowels, finals, syllables = 21, 28, 11172
	switch l, v, f := base-first, part-vowel, part-final; {
	case 0 <= l && l < syllables/vowels/finals && 0 <= v && v < vowels:
		return whole + (l*vowels+v)*finals
	case whole <= base && base < whole+syllables && (base-whole)%finals == 0 && 0 < f && f < finals:
		return base + f
	}
	return 0
}

// Fold returns the folded form of a text. Texts that look alike have the same folded form.
// It has no case, and is composed by NFKC of Unicode 15.0.0. All apostrophes become one
// sign, and so do all hyphens. Fold removes soft hyphens, characters without width, marks
// of direction, points of Arabic and Hebrew, and tones and variants of emoji. The order of
// up to 30 marks on a letter does not matter. internal/wordstest lists the characters
// that stay unchanged.
func Fold(text string) string {
	dst := make([]byte, 0, len(text))
	var buf [16]rune
	for text != "" {
		if c := text[0]; c < utf8.RuneSelf && (len(text) == 1 || text[1] < utf8.RuneSelf) {
			dst, text = append(dst, byte(low(rune(c)))), text[1:]
			continue
		}
		t := theFolding()
		key, size := t.next(buf[:0], text)
		dst, text = t.usual(dst, key), text[size:]
	}
	return string(dst)
}

// usual appends the usual form of a key.
func (t *folding) usual(dst []byte, key []rune) []byte {
	for len(key) > 0 {
		n := 1 + accentsOf(key[1:])
		if r, ok := t.whole[string(key[:n])]; ok {
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = append(dst, string(key[:n])...)
		}
		key = key[n:]
	}
	return dst
}

// key returns the keys of all characters of a folded text.
func (t *folding) key(text string) (key []rune) {
	for text != "" {
		var size int
		key, size = t.next(key, text)
		text = text[size:]
	}
	return key
}
