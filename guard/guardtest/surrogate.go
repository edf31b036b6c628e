package guardtest

import "strconv"

// halfSurrogate looks in valid JSON for an escaped half of a surrogate pair,
// which is no character. It returns the offset of the first and what the
// provider says about it, or -1.
func halfSurrogate(body []byte) (at int, text string) {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		switch {
		case isHalf(body, i, 0xd800) && isHalf(body, i+6, 0xdc00):
			i += 11
		case isHalf(body, i, 0xd800):
			return i, "no low surrogate in string"
		case isHalf(body, i, 0xdc00):
			return i, "invalid high surrogate in string"
		default:
			i++ // the escaped character
		}
	}
	return -1, ""
}

// isHalf reports whether an escape at offset i is one of the 1,024 surrogates
// from first on.
func isHalf(body []byte, i int, first uint64) bool {
	if i+6 > len(body) || body[i] != '\\' || body[i+1] != 'u' {
		return false
	}
	n, err := strconv.ParseUint(string(body[i+2:i+6]), 16, 32)
	return err == nil && n >= first && n < first+0x400
}
