package jsontext

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Valid reports whether data is one JSON value in valid UTF-8. Values nested
// deeper than encoding/json allows (10,000) are not valid.
func Valid(data []byte) bool { return utf8.Valid(data) && json.Valid(data) }

// IsObject reports whether data starts like a JSON object.
func IsObject(data []byte) bool { return first(data) == '{' }

// IsArray reports whether data starts like a JSON array.
func IsArray(data []byte) bool { return first(data) == '[' }

// IsString reports whether data starts like a JSON string.
func IsString(data []byte) bool { return first(data) == '"' }

// IsNull reports whether data is empty or the JSON null.
func IsNull(data []byte) bool {
	data = Trim(data)
	return len(data) == 0 || string(data) == "null"
}

func first(data []byte) byte {
	if data = Trim(data); len(data) > 0 {
		return data[0]
	}
	return 0
}

// Trim returns data without the JSON white space around it.
func Trim(data []byte) []byte { return bytes.Trim(data, " \t\r\n") }

// Members returns the members of a valid object in order: the unescaped name
// and the bytes of the value, which alias obj. Of equal names every one is
// returned; by the rule of encoding/json the last one counts.
func Members(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i := skipSpace(obj, 0)
		if i >= len(obj) || obj[i] != '{' {
			return
		}
		for i++; ; i++ {
			i = skipSpace(obj, i)
			if i >= len(obj) || obj[i] != '"' {
				return
			}
			end := Skip(obj, i)
			name, ok := String(obj[i:end])
			if i = skipSpace(obj, end); !ok || i >= len(obj) || obj[i] != ':' {
				return
			}
			i = skipSpace(obj, i+1)
			end = Skip(obj, i)
			if end == i || !yield(name, obj[i:end]) {
				return
			}
			if i = skipSpace(obj, end); i >= len(obj) || obj[i] != ',' {
				return
			}
		}
	}
}

// Elements returns the values of a valid array in order; they alias arr.
func Elements(arr []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := skipSpace(arr, 0)
		if i >= len(arr) || arr[i] != '[' {
			return
		}
		for i++; ; i++ {
			i = skipSpace(arr, i)
			end := Skip(arr, i)
			if end == i || !yield(arr[i:end]) {
				return
			}
			if i = skipSpace(arr, end); i >= len(arr) || arr[i] != ',' {
				return
			}
		}
	}
}

// Member returns the value of the last member of obj called name.
func Member(obj []byte, name string) (value []byte, ok bool) {
	for n, v := range Members(obj) {
		if n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// Skip returns the index after the value that starts at data[i], by counting
// brackets outside strings: it finds the end of a valid value and does not
// prove that the value is one. It returns i when no value starts there, and
// len(data) when the value does not end.
func Skip(data []byte, i int) int {
	depth := 0
	for j := i; j < len(data); j++ {
		switch data[j] {
		case '"':
			for j++; j < len(data) && data[j] != '"'; j++ {
				if data[j] == '\\' {
					j++
				}
			}
			if j >= len(data) {
				return len(data)
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return j
			}
		case ' ', '\t', '\r', '\n', ',', ':':
			if depth == 0 {
				return j
			}
			continue
		default:
			for depth == 0 && j+1 < len(data) && !delimiter(data[j+1]) {
				j++
			}
		}
		if depth == 0 {
			return j + 1
		}
	}
	return len(data)
}

func delimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':', '}', ']', '{', '[', '"':
		return true
	}
	return false
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\r' || data[i] == '\n') {
		i++
	}
	return i
}

// String decodes a JSON string. Lone surrogates become U+FFFD.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// Int decodes a JSON number that is a whole number, written in any way
// (12, 12.0, 1.2e1).
func Int(raw []byte) (int64, bool) {
	var n int64
	if json.Unmarshal(raw, &n) == nil && !IsNull(raw) {
		return n, true
	}
	f, ok := Float(raw)
	if !ok || f < -1<<63 || f >= 1<<63 || f != float64(int64(f)) {
		return 0, false
	}
	return int64(f), true
}

// Float decodes a JSON number.
func Float(raw []byte) (float64, bool) {
	var f float64
	if IsNull(raw) || json.Unmarshal(raw, &f) != nil {
		return 0, false
	}
	return f, true
}

// Bool decodes true or false.
func Bool(raw []byte) (value, ok bool) {
	switch string(Trim(raw)) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}
