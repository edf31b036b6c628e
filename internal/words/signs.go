package words

import "unicode"

// table returns a table with the characters from the first to the last of each pair.
func table(pairs ...[2]rune) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for _, p := range pairs {
		if p[1] < 0x10000 {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(p[0]), Hi: uint16(p[1]), Stride: 1})
			continue
		}
		t.R32 = append(t.R32, unicode.Range32{Lo: uint32(p[0]), Hi: uint32(p[1]), Stride: 1})
	}
	return t
}

var (
	// ignored are soft hyphens, characters without width, and characters that only set the
	// direction of a text.
	ignored = table([2]rune{0xad, 0xad}, [2]rune{0x200b, 0x200f}, [2]rune{0x202a, 0x202e}, [2]rune{0x2060, 0x206f}, [2]rune{0xfeff, 0xfeff})

	// accents turn the previous letter into another letter: the marks of Latin and Greek,
	// the hamza of Arabic, the voice marks of kana.
	accents = table([2]rune{0x300, 0x36f}, [2]rune{0x653, 0x655}, [2]rune{0x3099, 0x309a}, [2]rune{0xff9e, 0xff9f})

	// points are the other marks of Hebrew and Arabic, and the Arabic line that lengthens
	// a word.
	points = table([2]rune{0x591, 0x5bd}, [2]rune{0x5bf, 0x5bf}, [2]rune{0x5c1, 0x5c2}, [2]rune{0x5c4, 0x5c5}, [2]rune{0x5c7, 0x5c7},
		[2]rune{0x610, 0x61c}, [2]rune{0x640, 0x640}, [2]rune{0x64b, 0x652}, [2]rune{0x656, 0x65f}, [2]rune{0x670, 0x670},
		[2]rune{0x6d6, 0x6dc}, [2]rune{0x6df, 0x6e4}, [2]rune{0x6e7, 0x6e8}, [2]rune{0x6ea, 0x6ed}, [2]rune{0x8ca, 0x8ff})

	// jamo are the parts of a syllable of Hangul.
	jamo = table([2]rune{0x1100, 0x1112}, [2]rune{0x1161, 0x1175}, [2]rune{0x11a8, 0x11c2})

	emoji = table([2]rune{0x231a, 0x231b}, [2]rune{0x23e9, 0x23fa}, [2]rune{0x2600, 0x27bf}, [2]rune{0x2b50, 0x2b55},
		[2]rune{0x1f000, 0x1f0ff}, flags, [2]rune{0x1f300, 0x1faff})
	tones = table([2]rune{0x1f3fb, 0x1f3ff}) // of skin

	// variants select a form of the previous character.
	variants = table([2]rune{0xfe00, 0xfe0f})
)

// flags are letters of which each pair forms a flag.
var flags = [2]rune{0x1f1e6, 0x1f1ff}

// all calls f for each character of a table.
func all(t *unicode.RangeTable, f func(rune)) {
	for _, p := range t.R16 {
		for r := rune(p.Lo); r <= rune(p.Hi); r++ {
			f(r)
		}
	}
	for _, p := range t.R32 {
		for r := rune(p.Lo); r <= rune(p.Hi); r++ {
			f(r)
		}
	}
}

func isFlag(r rune) bool { return flags[0] <= r && r <= flags[1] }
