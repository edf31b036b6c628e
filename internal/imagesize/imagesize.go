// Package imagesize reads the size of an image.
package imagesize

import "github.com/convolog/convolog/transcript"

// Of returns the width and the height of an image in pixels. It takes them from the record
// of a blob, or from the header of a PNG, GIF, WebP or JPEG in base64, of which it decodes
// only the needed bytes. It returns 0, 0 for an unreadable image.
func Of(s *transcript.Source) (w, h int) {
	switch s.Type {
	case "blob":
		return s.Blob.Width, s.Blob.Height
	case "base64":
	default:
		return 0, 0
	}
	b := base64Text(s.Data)
	switch {
	case b.has(0, "\x89PNG") && b.has(12, "IHDR"):
		w, h = b.big(16, 4), b.big(20, 4)
	case b.has(0, "GIF8"):
		w, h = b.little(6, 2), b.little(8, 2)
	case b.has(0, "RIFF") && b.has(8, "WEBPVP8 "):
		w, h = b.little(26, 2)&0x3fff, b.little(28, 2)&0x3fff
	case b.has(0, "RIFF") && b.has(8, "WEBPVP8L"):
		bits := b.little(21, 4)
		w, h = bits&0x3fff+1, bits>>14&0x3fff+1
	case b.has(0, "RIFF") && b.has(8, "WEBPVP8X"):
		w, h = b.little(24, 3)+1, b.little(27, 3)+1
	case b.has(0, "\xff\xd8"):
		w, h = b.jpegSize()
	}
	const most = 1 << 20 // a larger value means damage
	if w <= 0 || h <= 0 || w > most || h > most {
		return 0, 0
	}
	return w, h
}

// base64Text holds bytes as base64. A missing or invalid byte reads as 0.
type base64Text string

func (b base64Text) at(i int) byte {
	k := i/3*4 + i%3
	if i < 0 || k+1 >= len(b) {
		return 0
	}
	pair := int(sextet(b[k]))<<6 | int(sextet(b[k+1])) // byte i is 8 of these 12 bits
	return byte(pair >> (4 - 2*(i%3)))
}

func sextet(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A'
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26
	case c >= '0' && c <= '9':
		return c - '0' + 52
	case c == '+', c == '-':
		return 62
	case c == '/', c == '_':
		return 63
	}
	return 0
}

func (b base64Text) has(at int, text string) bool {
	for i := range len(text) {
		if b.at(at+i) != text[i] {
			return false
		}
	}
	return true
}

func (b base64Text) big(at, size int) (n int) {
	for i := range size {
		n = n<<8 | int(b.at(at+i))
	}
	return n
}

func (b base64Text) little(at, size int) (n int) {
	for i := size - 1; i >= 0; i-- {
		n = n<<8 | int(b.at(at+i))
	}
	return n
}

// jpegSize skips segments up to the start of a frame, which holds the size.
func (b base64Text) jpegSize() (w, h int) {
	at := 2
	for range 1000 {
		marker := b.at(at + 1)
		switch {
		case b.at(at) != 0xff:
			return 0, 0
		case marker == 0xff: // padding
			at++
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			return b.big(at+7, 2), b.big(at+5, 2)
		default:
			at += 2 + b.big(at+2, 2)
		}
	}
	return 0, 0
}
