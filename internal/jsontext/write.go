package jsontext

import (
	"bytes"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Non-ASCII text is not escaped, so that grep
// finds it. The exceptions are U+2028 and U+2029, which some programs treat as line ends.
// Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		if c := s[i]; c < utf8.RuneSelf {
			dst = append(append(dst, s[start:i]...), '\\')
			switch c {
			case '"', '\\':
				dst = append(dst, c)
			case '\n':
				dst = append(dst, 'n')
			case '\r':
				dst = append(dst, 'r')
			case '\t':
				dst = append(dst, 't')
			default:
				const hex = "0123456789abcdef"
				dst = append(dst, 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[start:i]...), "\uFFFD"...)
			start = i + n
		case r == '\u2028', r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, '8'+byte(r-'\u2028'))
			start = i + n
		}
		i += n
	}
	return append(append(dst, s[start:]...), '"')
}

// plain returns the index of the first byte of s[i:] that is not ASCII or needs
// an escape inside a string, or len(s).
func plain(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if found := (marks(w) | w) & highBits; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// AppendValue appends a JSON value unchanged, with its spelling of numbers and its white
// space. There are two exceptions: if the value contains line breaks, the white space
// between its tokens is left out, and U+2028 and U+2029 are escaped. Text that is not
// valid JSON is appended as a JSON string, so that the result is always valid and no text
// is lost. An empty value is appended as null.
func AppendValue(dst, value []byte) []byte {
	value = Trim(value)
	if len(value) == 0 {
		return append(dst, "null"...)
	}
	if !Valid(value) {
		return AppendString(dst, string(value))
	}
	compact := bytes.ContainsAny(value, "\r\n")
	if !compact && !bytes.Contains(value, separators) {
		return append(dst, value...)
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case ' ', '\t', '\r', '\n':
			if !compact {
				dst = append(dst, c)
			}
		case '"':
			end := Skip(value, i)
			dst = appendEscaped(dst, value[i:end])
			i = end - 1
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// separators is the beginning of U+2028 and U+2029 in UTF-8.
var separators = []byte("\xe2\x80")

// appendEscaped appends a valid JSON string with its separators escaped.
func appendEscaped(dst, s []byte) []byte {
	for {
		i := bytes.Index(s, separators)
		if i < 0 || i+2 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		switch c := s[i+2]; c {
		case 0xa8, 0xa9:
			dst = append(dst, `\u202`...)
			dst = append(dst, '8'+c-0xa8)
		default:
			dst = append(dst, s[i:i+3]...)
		}
		s = s[i+3:]
	}
}

// An Object writes one JSON object, member by member. The zero value writes into a new
// buffer.
type Object struct {
	buf  []byte
	open bool
}

// AppendObject returns an Object whose text is appended to dst.
func AppendObject(dst []byte) Object { return Object{buf: dst} }

// name starts a member; the caller appends its value to o.buf.
func (o *Object) name(name string) {
	c := byte('{')
	if o.open {
		c = ','
	}
	o.open = true
	o.buf = append(AppendString(append(o.buf, c), name), ':')
}

// String writes a string member.
func (o *Object) String(name, value string) {
	o.name(name)
	o.buf = AppendString(o.buf, value)
}

// OptString writes a string member unless value is empty.
func (o *Object) OptString(name, value string) {
	if value != "" {
		o.String(name, value)
	}
}

// Int writes a number.
func (o *Object) Int(name string, value int64) {
	o.name(name)
	o.buf = strconv.AppendInt(o.buf, value, 10)
}

// Bool writes true or false.
func (o *Object) Bool(name string, value bool) {
	o.name(name)
	o.buf = strconv.AppendBool(o.buf, value)
}

// OptBool writes true, and leaves the member out for false.
func (o *Object) OptBool(name string, value bool) {
	if value {
		o.Bool(name, value)
	}
}

// Value writes a JSON value by the rules of [AppendValue].
func (o *Object) Value(name string, value []byte) {
	o.name(name)
	o.buf = AppendValue(o.buf, value)
}

// OptValue writes a JSON value unless it is empty.
func (o *Object) OptValue(name string, value []byte) {
	if len(value) > 0 {
		o.Value(name, value)
	}
}

// Func writes the value that f appends; it must be valid JSON.
func (o *Object) Func(name string, f func(dst []byte) []byte) {
	o.name(name)
	o.buf = f(o.buf)
}

// End closes the object and returns the buffer.
func (o *Object) End() []byte {
	if !o.open {
		o.buf = append(o.buf, '{')
		o.open = true
	}
	return append(o.buf, '}')
}
