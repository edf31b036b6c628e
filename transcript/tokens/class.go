package tokens

import "unicode/utf8"

// A class is the kind of a character for a tokenizer. Letters come first: they
// make words, all the others end them.
type class uint8

const (
	common class = iota // the Latin letters that English is made of
	rare                // those that words seldom hold: g j k u v w y z
	upper
	latin     // letters of the Latin script outside of ASCII, to U+00FF
	latinA    // to U+017F: of Polish, Czech, Turkish ...
	latinB    // phonetic, combining and full width
	latinV    // of Vietnamese alone
	cyrillic  // of Russian
	cyrillicX // of the other languages
	greek
	arabic
	arabicX // of Persian, Urdu ...
	hebrew
	indic     // Devanagari
	indicX    // Bengali, Tamil and the other scripts of India
	southeast // Thai, Khmer, Myanmar
	alphabet  // Armenian, Georgian
	han
	hanRare // without a token in o200k
	kana
	hangul
	hangulRare
	twoLetter   // letters that a vocabulary contains only as bytes:
	threeLetter // two, three or four tokens each
	fourLetter

	digit
	space
	newline

	punct
	control
	symbol
	cjkPunct
	emoji
	joiner // joiners, variation selectors, skin tones
	two    // symbols of two, three or four tokens each
	three
	four

	classes
)

func (c class) letter() bool { return c <= fourLetter }

// scripted is set for letters of other scripts than Latin.
func (c class) scripted() bool { return c >= cyrillic && c <= fourLetter }

// asciiClass holds the classes of the first 128 characters. It has room for every
// byte, which spares a check.
var asciiClass = func() (classes [256]class) {
	for c := range classes {
		switch {
		case c >= utf8.RuneSelf:
			classes[c] = four // not looked at
		case c >= 'a' && c <= 'z':
			classes[c] = common
		case c >= 'A' && c <= 'Z':
			classes[c] = upper
		case c >= '0' && c <= '9':
			classes[c] = digit
		case c == ' ', c == '\t', c == '\v', c == '\f':
			classes[c] = space
		case c == '\n', c == '\r':
			classes[c] = newline
		case c < ' ', c == 0x7f:
			classes[c] = control
		default:
			classes[c] = punct
		}
	}
	for _, c := range "gjkuvwyz" {
		classes[c] = rare
	}
	return classes
}()

// ranges lists the classes of the characters outside of ASCII by the last
// character of each range, in order.
var ranges = [...]struct {
	last  rune
	class class
}{
	{0x9f, two}, // control characters
	{0xa0, space},
	{0xa9, symbol},
	{0xaa, latin},
	{0xb4, symbol},
	{0xb5, latin},
	{0xb9, symbol},
	{0xba, latin},
	{0xbf, symbol},
	{0xd6, latin},
	{0xd7, symbol},
	{0xf6, latin},
	{0xf7, symbol},
	{0x17f, latinA},
	{0x19f, latinB},
	{0x1b0, latinV}, // its letters with a horn
	{0x2af, latinB}, // phonetic
	{0x2ff, symbol},
	{0x36f, latinB},    // combining marks
	{0x3ff, greek},     // and Coptic
	{0x40f, cyrillicX}, // of other languages than Russian
	{0x44f, cyrillic},
	{0x52f, cyrillicX},
	{0x58f, alphabet}, // Armenian
	{0x5ff, hebrew},
	{0x670, arabic},
	{0x6ff, arabicX},
	{0x74f, twoLetter}, // Syriac
	{0x77f, arabic},
	{0x89f, twoLetter}, // Thaana, N'Ko ...
	{0x8ff, arabic},
	{0x97f, indic},
	{0xdff, indicX},
	{0xe7f, southeast},  // Thai
	{0xfff, twoLetter},  // Lao, Tibetan
	{0x109f, southeast}, // Myanmar
	{0x10ff, alphabet},  // Georgian
	{0x11ff, threeLetter},
	{0x139f, twoLetter},   // Ethiopic
	{0x177f, threeLetter}, // Cherokee, Ogham ...
	{0x17ff, southeast},
	{0x1cff, threeLetter},
	{0x1dff, latinB},    // phonetic extensions
	{0x1eff, latinV},    // Vietnamese
	{0x1fff, twoLetter}, // Greek with accents
	{0x200a, space},
	{0x200f, joiner},
	{0x2027, symbol},
	{0x2029, space},
	{0x202f, joiner}, // directions
	{0x20cf, symbol},
	{0x20ff, joiner}, // combining marks for symbols
	{0x27ff, symbol}, // letter-like, arrows, mathematics, boxes
	{0x28ff, three},  // Braille: a token for each byte
	{0x2bff, symbol},
	{0x2dff, threeLetter}, // Glagolitic ... Georgian, Tifinagh
	{0x2e7f, symbol},
	{0x2fdf, han}, // radicals
	{0x3000, space},
	{0x303f, cjkPunct},
	{0x312f, kana}, // Bopomofo
	{0x318f, hangul},
	{0x31ef, han},
	{0x31ff, kana},
	{0x33ff, symbol},
	{0x4dbf, threeLetter}, // Han extension A
	{0x4dff, symbol},
	{0x9fff, han},
	{0xa71f, threeLetter}, // Yi
	{0xa7ff, latinB},
	{0xabff, threeLetter},
	{0xd7ff, hangul},
	{0xf8ff, three}, // private use
	{0xfaff, han},
	{0xfb1c, twoLetter},
	{0xfb4f, hebrew},
	{0xfdff, arabic},
	{0xfe0f, joiner}, // variation selectors
	{0xfe6f, cjkPunct},
	{0xfefe, arabic},
	{0xfeff, joiner},
	{0xff20, cjkPunct}, // full width forms
	{0xff3a, latinB},
	{0xff40, cjkPunct},
	{0xff5a, latinB},
	{0xff65, cjkPunct},
	{0xff9f, twoLetter}, // half width kana
	{0xffdf, threeLetter},
	{0xffef, symbol},
	{0x1f0ff, three}, // ancient scripts, musical symbols, mathematical letters
	{0x1f1e5, symbol},
	{0x1f3fa, emoji},
	{0x1f3ff, joiner}, // skin tones
	{0x1faff, emoji},
	{0x1ffff, symbol},
	{0x3ffff, fourLetter}, // Han extensions B and up
	{utf8.MaxRune, four},
}

func classOf(r rune) class {
	switch { // the scripts that fill whole texts
	case r >= firstHan && r <= lastHan:
		if frequent(r) {
			return han
		}
		return hanRare
	case r >= firstHangul && r <= lastHangul:
		if frequent(r) {
			return hangul
		}
		return hangulRare
	case r >= 0x410 && r <= 0x44f:
		return cyrillic
	}
	lo, hi := 0, len(ranges)-1
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); r > ranges[mid].last {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return ranges[lo].class
}

// classAt returns the class of the character that s has at i, the character,
// and its size in bytes.
func classAt[T ~string | ~[]byte](s T, i int) (class, rune, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return asciiClass[c], rune(c), 1
	}
	return decodeAt(s, i)
}

func decodeAt[T ~string | ~[]byte](s T, i int) (class, rune, int) {
	// A string of up to four bytes stays on the stack.
	r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
	return classOf(r), r, n
}
