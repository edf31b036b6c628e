package words

import (
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"
)

// An oddity is a set of characters with which texts may spell a needle otherwise
// than it is usual. All of them are beyond ASCII.
type oddity struct {
	lead  [256]bool  // the first bytes of the characters
	bloom [64]uint64 // has a bit for each of them, and for others
	set   map[rune]bool
	// d and e are all ones if a first byte begins with d, or lies from e4 to eb.
	// Most texts consist of such characters, and they are seldom odd.
	d, e uint64
}

func hash(r rune) uint32 { return uint32(r) * 0x9e3779b1 >> 20 }

func (o *oddity) add(r rune) {
	b := string(r)[0]
	if o.set == nil {
		o.set = map[rune]bool{}
	}
	o.set[r], o.lead[b] = true, true
	o.bloom[hash(r)>>6] |= 1 << (hash(r) & 63)
	if b>>4 == 0xd {
		o.d = ^uint64(0)
	}
	if 0xe4 <= b && b <= 0xeb {
		o.e = ^uint64(0)
	}
}

func (o *oddity) has(r rune) bool {
	return o.bloom[hash(r)>>6]>>(hash(r)&63)&1 != 0 && o.set[r]
}

// isOdd reports whether a text has one of the characters.
func isOdd[T string | []byte](o *oddity, text T) bool {
	at := 0
	for ; at+8 <= len(text); at += 8 {
		w := uint64(text[at]) | uint64(text[at+1])<<8 | uint64(text[at+2])<<16 | uint64(text[at+3])<<24 |
			uint64(text[at+4])<<32 | uint64(text[at+5])<<40 | uint64(text[at+6])<<48 | uint64(text[at+7])<<56
		if w&0x8080808080808080 == 0 {
			continue
		}
		// The first bit of a byte is set in m if it may be a first byte that matters:
		// the bits of the byte, from the second one on, are the first ones of these.
		b6, b5, b4, b3, b2 := w<<1, w<<2, w<<3, w<<4, w<<5
		m := w & b6 & (b5&(b4|^(b3^b2)|o.e) | ^b5&(^b4|o.d)) & 0x8080808080808080
		for ; m != 0; m &= m - 1 {
			if begins := at + bits.TrailingZeros64(m)>>3; o.lead[text[begins]] && o.has(decode(text, begins)) {
				return true
			}
		}
	}
	for ; at < len(text); at++ {
		if o.lead[text[at]] && o.has(decode(text, at)) {
			return true
		}
	}
	return false
}

// decode returns the character at a place of a text, which is beyond ASCII, or any
// other if the text is not UTF-8.
func decode[T string | []byte](text T, at int) rune {
	b, size := text[at], 2
	r := rune(b & 0x1f)
	if b >= 0xf0 {
		r, size = rune(b&7), 4
	} else if b >= 0xe0 {
		r, size = rune(b&15), 3
	}
	for i := at + 1; i < min(at+size, len(text)); i++ {
		r = r<<6 | rune(text[i]&0x3f)
	}
	return r
}

// oddOf returns the odd characters for a key: those that need another number of
// bytes than the usual form, those that make several characters or none.
func (t *folding) oddOf(key []rune) *oddity {
	o := &oddity{}
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
	return o
}
