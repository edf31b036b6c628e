package jsontext

import (
	"bytes"
	"strconv"
)

// HalfSurrogate returns the offset of the first unpaired surrogate escape in valid JSON, or
// -1. JSON allows such an escape, but strict readers refuse it, because it is not a
// character.
func HalfSurrogate(doc []byte) int {
	for i := 0; i < len(doc); {
		at := bytes.IndexByte(doc[i:], '\\')
		if at < 0 {
			break
		}
		i += at
		switch {
		case isSurrogate(doc, i, 0xd800) && isSurrogate(doc, i+6, 0xdc00):
			i += 12
		case isSurrogate(doc, i, 0xd800), isSurrogate(doc, i, 0xdc00):
			return i
		default:
			i += 2
		}
	}
	return -1
}

// MendSurrogates replaces each unpaired surrogate escape in valid JSON by \ufffd, and
// reports whether there was one.
func MendSurrogates(doc []byte) (mended bool) {
	for at := 0; ; {
		i := HalfSurrogate(doc[at:])
		if i < 0 {
			return mended
		}
		copy(doc[at+i:], `\ufffd`)
		at, mended = at+i+6, true
	}
}

// isSurrogate reports whether an escape of one of the 1,024 surrogates that begin with
// first is at offset i.
func isSurrogate(doc []byte, i int, first uint64) bool {
	if i+6 > len(doc) || doc[i] != '\\' || doc[i+1] != 'u' {
		return false
	}
	n, err := strconv.ParseUint(string(doc[i+2:i+6]), 16, 32)
	return err == nil && n >= first && n < first+0x400
}
