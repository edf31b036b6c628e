package jsontext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of values, as in encoding/json.
const maxDepth = 10_000

// Valid reports whether data is one JSON value in valid UTF-8, with or without white space
// around it. Values nested deeper than encoding/json allows (10,000) are not valid.
func Valid(data []byte) bool {
	end := check(data, skipSpace(data, 0), 0)
	return end >= 0 && skipSpace(data, end) == len(data)
}

// A Walk iterates over the members of an object in order and checks the object at the same
// time. So a caller reads a text once, and not twice for the check and the content.
//
//	for w := NewWalk(obj); w.Next(); {
//
// Like [Members], it returns every member of equal names.
type Walk struct {
	Name  string // unescaped
	Value []byte // valid; aliases the object

	obj   []byte
	at    int // the index after the last read byte, or -1 at the end
	valid bool
}

// NewWalk returns a walk of obj, which may be any text.
func NewWalk(obj []byte) Walk {
	w := Walk{obj: obj, at: -1}
	if i := skipSpace(obj, 0); i < len(obj) && obj[i] == '{' {
		w.at = i + 1
	}
	return w
}

// Next advances to the next member. It returns false at the end of the object, or at a
// place where the text is not valid.
func (w *Walk) Next() bool {
	if w.at < 0 {
		return false
	}
	i := skipSpace(w.obj, w.at)
	w.at = -1
	if i < len(w.obj) && w.obj[i] == '}' {
		w.valid = skipSpace(w.obj, i+1) == len(w.obj)
		return false
	}
	if first := w.Value == nil; !first {
		if i >= len(w.obj) || w.obj[i] != ',' {
			return false
		}
		i = skipSpace(w.obj, i+1)
	}
	end, value := checkName(w.obj, i)
	if value < 0 {
		return false
	}
	w.Name, _ = Word(w.obj[i:end])
	if end = check(w.obj, value, 1); end < 0 {
		return false
	}
	w.Value, w.at = w.obj[value:end], end
	return true
}

// Valid reports whether Next has read all of the text, and the text is one valid object.
func (w *Walk) Valid() bool { return w.valid }

// check returns the index after the valid value that starts at data[i], or -1 if no valid
// value starts there. The value is nested in depth other values.
func check(data []byte, i, depth int) int {
	var room [64]byte
	open := room[:0] // the closing brackets to expect, the next one last
	for i >= 0 && i < len(data) {
		if c := data[i]; c == '{' || c == '[' {
			open = append(open, c+2)
			if depth+len(open) > maxDepth {
				return -1
			}
			i = skipSpace(data, i+1)
			if i < len(data) && data[i] != c+2 {
				i = checkNext(data, i, c+2)
				continue
			}
		} else if i = checkScalar(data, i); i < 0 {
			return -1
		}
		// Here i is after a value, or at the closing bracket of an empty one.
		n := len(open)
		for ; n > 0; n-- {
			if i = skipSpace(data, i); i >= len(data) || data[i] != open[n-1] {
				break
			}
			i++
		}
		if open = open[:n]; n == 0 {
			return i
		}
		if i >= len(data) || data[i] != ',' {
			return -1
		}
		i = checkNext(data, i+1, open[n-1])
	}
	return -1
}

// checkNext returns the index of the next value inside a value that ends with bracket. In
// an object a name must come first; without it checkNext returns -1.
func checkNext(data []byte, i int, bracket byte) int {
	i = skipSpace(data, i)
	if bracket == '}' {
		_, i = checkName(data, i)
	}
	return i
}

// checkName returns the index after the name of a member that starts at data[i], and the
// index of its value. Both are -1 if no name starts there.
func checkName(data []byte, i int) (end, value int) {
	if i >= len(data) || data[i] != '"' {
		return -1, -1
	}
	if end = checkString(data, i); end < 0 {
		return -1, -1
	}
	i = skipSpace(data, end)
	if i >= len(data) || data[i] != ':' {
		return -1, -1
	}
	return end, skipSpace(data, i+1)
}

// checkScalar returns the index after the string, number or word that starts at data[i], or
// -1.
func checkScalar(data []byte, i int) int {
	switch data[i] {
	case '"':
		return checkString(data, i)
	case 't':
		return checkWord(data, i, "true")
	case 'f':
		return checkWord(data, i, "false")
	case 'n':
		return checkWord(data, i, "null")
	}
	return checkNumber(data, i)
}

// checkString returns the index after the string whose opening quote is data[i], or -1.
func checkString(data []byte, i int) int {
	start := i
	for i = special(data, i+1); i < len(data); i = special(data, i) {
		switch data[i] {
		case '"':
			if !utf8.Valid(data[start:i]) {
				return -1
			}
			return i + 1
		case '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				return -1
			}
			i += n
		default:
			return -1
		}
	}
	return -1
}

// special returns the index of the first special byte of a string in data[i:], or
// len(data). A special byte is a quote, a backslash, or a control character, which is an
// error.
func special(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		w := binary.LittleEndian.Uint64(data[i:])
		if found := marks(w) &^ w & highBits; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// highBits is the mask of the high bits of the eight bytes of a word.
const highBits = 0x8080808080808080

// marks sets the high bit of the first ASCII byte of w that is special inside a string.
// w is in little endian. A subtraction sets the bit if the byte is too small. The
// subtraction may borrow from later bytes and then marks them as well. The bits of
// non-ASCII bytes are undefined.
func marks(w uint64) uint64 {
	const ones = 0x0101010101010101
	return (w - ones*' ') | (w ^ ones*'"' - ones) | (w ^ ones*'\\' - ones)
}

func checkWord(data []byte, i int, word string) int {
	if !bytes.HasPrefix(data[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

func checkNumber(data []byte, i int) int {
	if data[i] == '-' {
		i++
	}
	start := i
	if i = digits(data, i); i == start || data[start] == '0' && i > start+1 {
		return -1
	}
	if i < len(data) && data[i] == '.' {
		start = i + 1
		if i = digits(data, start); i == start {
			return -1
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		start = i + 1
		if start < len(data) && (data[start] == '+' || data[start] == '-') {
			start++
		}
		if i = digits(data, start); i == start {
			return -1
		}
	}
	return i
}

func digits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}
