package tokens

import "unicode/utf8"

const hundred = 100

// The weights of characters by class, in hundredths of a token of o200k.
const (
	lower      = 19
	upper      = 58
	digit      = 78
	space      = 7
	newline    = 122
	punct      = 53
	latin      = 114 // letters of the Latin script outside of ASCII
	cyrillic   = 32
	greek      = 41
	arabic     = 39
	hebrew     = 49
	indic      = 39
	southeast  = 43 // Thai, Lao, Khmer, Myanmar, Tibetan
	alphabetic = 37 // the other alphabets
	han        = 84
	kana       = 68
	hangul     = 72
	cjkPunct   = 47
	symbol     = 72
	emoji      = 215
	joiner     = 91 // joiners, variation selectors, skin tones
	other      = 298
)

// ascii holds the weights of the first 128 characters.
var ascii = func() (w [utf8.RuneSelf]uint16) {
	for c := range w {
		switch {
		case c >= 'a' && c <= 'z':
			w[c] = lower
		case c >= 'A' && c <= 'Z':
			w[c] = upper
		case c >= '0' && c <= '9':
			w[c] = digit
		case c == ' ', c == '\t', c == '\r':
			w[c] = space
		case c == '\n':
			w[c] = newline
		case c < ' ', c == 0x7f:
			w[c] = hundred // most control bytes are a token each
		default:
			w[c] = punct
		}
	}
	return w
}()

// weigh returns the weight of a text in hundredths of a token. It goes over
// the text once and allocates nothing.
func weigh[T ~string | ~[]byte](s T) int {
	sum := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			sum += int(ascii[c])
			i++
			continue
		}
		// A string of up to four bytes stays on the stack.
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		sum += weight(r)
		i += n
	}
	return sum
}

// ranges lists the classes of the characters outside of ASCII by the last
// character of each range, in order.
var ranges = [...]struct {
	last   rune
	weight uint16
}{
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
	{0x2af, latin},
	{0x2ff, symbol},
	{0x36f, latin}, // combining marks
	{0x3ff, greek}, // and Coptic
	{0x52f, cyrillic},
	{0x58f, alphabetic}, // Armenian
	{0x5ff, hebrew},
	{0x6ff, arabic},
	{0x74f, alphabetic}, // Syriac
	{0x77f, arabic},
	{0x89f, alphabetic}, // Thaana, N'Ko ...
	{0x8ff, arabic},
	{0xdff, indic},       // Devanagari to Sinhala
	{0x109f, southeast},  // Thai, Lao, Tibetan, Myanmar
	{0x10ff, alphabetic}, // Georgian
	{0x11ff, hangul},     // Jamo
	{0x177f, alphabetic}, // Ethiopic, Cherokee, Ogham ...
	{0x17ff, southeast},  // Khmer
	{0x1bff, alphabetic},
	{0x1cff, alphabetic},
	{0x1dff, latin}, // phonetic extensions
	{0x1eff, latin},
	{0x1fff, greek},
	{0x200a, symbol}, // spaces
	{0x200f, joiner},
	{0x2029, symbol},
	{0x202f, joiner}, // directions
	{0x20cf, symbol},
	{0x20ff, joiner}, // combining marks for symbols
	{0x25ff, symbol}, // letter-like, arrows, mathematics, boxes
	{0x27bf, symbol}, // miscellaneous symbols and dingbats
	{0x27ff, symbol},
	{0x28ff, 3 * hundred}, // Braille: a token for each byte
	{0x2bff, symbol},
	{0x2dff, alphabetic}, // Glagolitic ... Georgian, Tifinagh
	{0x2e7f, symbol},
	{0x2fdf, han}, // radicals
	{0x303f, cjkPunct},
	{0x30ff, kana},
	{0x312f, kana}, // Bopomofo
	{0x318f, hangul},
	{0x31ef, han},
	{0x31ff, kana},
	{0x33ff, symbol},      // enclosed and squared
	{0x4dbf, 3 * hundred}, // Han extension A
	{0x4dff, symbol},
	{0x9fff, han},
	{0xa4cf, 3 * hundred}, // Yi
	{0xa71f, alphabetic},
	{0xa7ff, latin},
	{0xa95f, alphabetic},
	{0xa97f, hangul},
	{0xabff, alphabetic},
	{0xd7ff, hangul},
	{0xf8ff, 3 * hundred}, // private use
	{0xfaff, han},
	{0xfb1c, alphabetic},
	{0xfb4f, hebrew},
	{0xfdff, arabic},
	{0xfe0f, joiner}, // variation selectors
	{0xfe4f, cjkPunct},
	{0xfe6f, cjkPunct},
	{0xfefe, arabic},
	{0xfeff, joiner},
	{0xff0f, cjkPunct}, // full width forms
	{0xff19, digit},
	{0xff20, cjkPunct},
	{0xff3a, latin},
	{0xff40, cjkPunct},
	{0xff5a, latin},
	{0xff65, cjkPunct},
	{0xff9f, kana},
	{0xffdf, hangul},
	{0xffef, symbol},
	{0xffff, other},       // U+FFFD among them
	{0x1f0ff, alphabetic}, // ancient scripts, musical symbols, mathematical letters
	{0x1f1e5, symbol},
	{0x1f3fa, emoji},  // flags, pictographs
	{0x1f3ff, joiner}, // skin tones
	{0x1faff, emoji},
	{0x1ffff, symbol},
	{0x3ffff, 4 * hundred}, // Han extensions B and up
	{utf8.MaxRune, 4 * hundred},
}

// weight returns the weight of a character outside of ASCII.
func weight(r rune) int {
	switch { // the scripts that fill whole texts
	case r >= 0x4e00 && r <= 0x9fff:
		return han
	case r >= 0xac00 && r <= 0xd7a3:
		return hangul
	}
	lo, hi := 0, len(ranges)-1
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); r > ranges[mid].last {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return int(ranges[lo].weight)
}
