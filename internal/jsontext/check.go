package jsontext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deeply values may be nested, as in encoding/json.
const maxDepth = 10_000

// Valid reports whether data is one JSON value in valid UTF-8, with white space
// around it or not. Values nested deeper than encoding/json allows (10,000) are
// not valid.
func Valid(data []byte) bool {
	end := check(data, skipSpace(data, 0), 0)
	return end >= 0 && skipSpace(data, end) == len(data)
}

// A Walk goes through the members of an object in order and checks the object
// on the way, so that a caller need not read a text twice: once to check it and
// once for its content.
//
//	for w := NewWalk(obj); w.Next(); {
//
// Of equal names every one is returned, as by [Members].
type Walk struct {
	Name  string // unescaped
	Value []byte // valid; aliases the object

	obj   []byte
	at    int // after the last read byte, -1 at the end
	valid bool
}

// NewWalk returns a walk of obj, which may be anything.
func NewWalk(obj []byte) Walk {
	w := Walk{obj: obj, at: -1}
	if i := skipSpace(obj, 0); i < len(obj) && obj[i] == '{' {
		w.at = i + 1
	}
	return w
}

// Next goes to the next member. It returns false at the end of the object and
// where the text turns out not to be one valid object.
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

// Valid reports whether Next has gone through all of the text and it is one
// valid object.
func (w *Walk) Valid() bool { return w.valid }

// check returns the index after the valid value that starts at data[i], inside
// of depth others, or -1 if none does.
func check(data []byte, i, depth int) int {
	var room [64]byte
	open := room[:0] // the brackets that have to come
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
		// After a value, or at the end of an empty one.
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

// checkNext returns the index of the next value inside of one that ends with
// that bracket, or -1 if a name has to come first and does not.
func checkNext(data []byte, i int, bracket byte) int {
	i = skipSpace(data, i)
	if bracket == '}' {
		_, i = checkName(data, i)
	}
	return i
}

// checkName returns the indexes after the name of a member that starts at
// data[i], and of its value; -1 if there is no name.
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

// checkScalar returns the index after the value that starts at data[i] and is
// neither an object nor an array, or -1.
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

// checkString returns the index after the string whose quote is data[i].
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

// special returns the index of the first special byte of a string in data[i:]:
// a quote, a backslash, or a control character, which must not be there.
// Otherwise it returns len(data).
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

// highBits are the high bits of the eight bytes of a word.
const highBits = 0x8080808080808080

// marks sets the high bit of the first ASCII byte of w, a word in little endian,
// that is special inside a string: subtraction sets it where a byte is too
// small. It may borrow from later bytes and mark them as well, and is undefined
// for bytes outside of ASCII.
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
