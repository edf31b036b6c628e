package words

import (
	"math"
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"
)

// An oddity is a set of characters that may spell a needle in an unusual way. No character
// of the set is ASCII.
type oddity struct {
	leads [256]bool // the first bytes of the characters
	// Bits for the last byte of each character, by the previous bytes. The first byte of
	// four is always 0xf0.
	two         [64]uint64
	three, four [64]*[64]uint64
	// Each has all 64 bits set, or no bit, for first bytes that are frequent in texts of a
	// script: 0xd0 to 0xdf, 0xe3, 0xe4 to 0xeb.
	d, e3, e4 uint64
}

// add adds a character.
func (o *oddity) add(r rune) {
	b := []byte(string(r))
	o.leads[b[0]] = true
	bits := &o.two[b[0]&63]
	if len(b) > 2 {
		level := &o.three[b[len(b)-3]&63]
		if len(b) == 4 {
			level = &o.four[b[1]&63]
		}
		if *level == nil {
			*level = new([64]uint64)
		}
		bits = &(*level)[b[len(b)-2]&63]
	}
	*bits |= 1 << (b[len(b)-1] & 63)
	switch {
	case b[0]>>4 == 0xd:
		o.d = math.MaxUint64
	case b[0] == 0xe3:
		o.e3 = math.MaxUint64
	case 0xe4 <= b[0] && b[0] <= 0xeb:
		o.e4 = math.MaxUint64
	}
}

// isOdd reports whether a text contains one of the characters.
func isOdd[T string | []byte](o *oddity, text T) bool {
	const high = 0x8080808080808080
	for len(text) >= 64 {
		t := text[:64]
		if (bytes8(t, 0)|bytes8(t, 8)|bytes8(t, 16)|bytes8(t, 24)|bytes8(t, 32)|bytes8(t, 40)|bytes8(t, 48)|bytes8(t, 56))&high == 0 {
			text = text[64:]
			continue
		}
		for i := 0; i < 64; i += 8 {
			// The high bit of a byte of m is set if the byte may be the first of a character.
			// b6 to b0 hold the other bits of each byte at the place of its high bit.
			w := bytes8(t, i)
			if w&high == 0 {
				continue
			}
			b6, b5, b4, b3, b2, b1, b0 := w<<1, w<<2, w<<3, w<<4, w<<5, w<<6, w<<7
			rare := b4 | ^((b3^b2)&^o.e4 | b1&b0&^(b3|b2)&^o.e3)
			for m := w & b6 & high & (b5&rare | ^b5&(^b4|o.d)); m != 0; m &= m - 1 {
				if first := i + bits.TrailingZeros64(m)>>3; o.leads[text[first]] && hasAt(o, text, first) {
					return true
				}
			}
		}
		text = text[64:]
	}
	for at := range len(text) {
		if o.leads[text[at]] && hasAt(o, text, at) {
			return true
		}
	}
	return false
}

// bytes8 returns 8 bytes of a text, with the first byte in the lowest bits.
func bytes8[T string | []byte](text T, at int) uint64 {
	t := text[at : at+8]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

// hasAt reports whether one of the characters is at a place of a text.
func hasAt[T string | []byte](o *oddity, text T, at int) bool {
	b, level := text[at], (*[64]uint64)(nil)
	switch {
	case b < 0xe0:
		return at+1 < len(text) && o.two[b&63]>>(text[at+1]&63)&1 != 0
	case b < 0xf0:
		level = o.three[b&63]
	case at+1 < len(text):
		at++
		level = o.four[text[at]&63]
	}
	return level != nil && at+2 < len(text) && level[text[at+1]&63]>>(text[at+2]&63)&1 != 0
}

// addOdd adds the odd characters for a key: characters with another number of bytes than
// the usual form, and characters whose usual form is several characters or none.
func (t *folding) addOdd(o *oddity, key []rune) {
	all(ignored, o.add)
	for i := range key {
		for n := 1; n <= min(t.longest, len(key)-i); n++ {
			part := key[i : i+n]
			size := 0
			if usual := t.usual(nil, part); utf8.RuneCount(usual) == 1 {
				size = len(usual)
			}
			for _, r := range t.alike[string(part)] {
				if utf8.RuneLen(r) != size {
					o.add(r)
				}
			}
		}
	}
	for _, k := range []struct {
		marks *unicode.RangeTable
		on    func(rune) bool
	}{
		{accents, isAccent},
		{jamo, func(r rune) bool { return unicode.Is(unicode.Hangul, r) }},
		{points, takesPoints},
		{tones, func(r rune) bool { return unicode.Is(emoji, r) }},
		{variants, takesVariants},
	} {
		if slices.ContainsFunc(key, k.on) {
			all(k.marks, o.add)
		}
	}
}
