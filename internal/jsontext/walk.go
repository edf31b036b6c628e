package jsontext

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

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
	if i := skipSpace(data, 0); i < len(data) {
		return data[i]
	}
	return 0
}

// Trim returns data without the JSON white space around it.
func Trim(data []byte) []byte {
	i, n := skipSpace(data, 0), len(data)
	for n > i && (data[n-1] == ' ' || data[n-1] == '\t' || data[n-1] == '\r' || data[n-1] == '\n') {
		n--
	}
	return data[i:n]
}

// Members returns the members of a valid object in order: the unescaped name and the
// bytes of the value, which alias obj. It returns every member of equal names; in
// encoding/json the last one counts.
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
			name, ok := Word(obj[i:end])
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

// Skip returns the index after the value that starts at data[i]. It counts brackets
// outside strings: it finds the end of a valid value, but does not check that the value is
// valid. It returns i if no value starts there, and len(data) if the value does not end.
func Skip(data []byte, i int) int {
	depth := 0
	for j := i; j < len(data); j++ {
		switch data[j] {
		case '"':
			for j = special(data, j+1); j < len(data) && data[j] != '"'; j = special(data, j+1) {
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

// Word is like String, but does not allocate for words that are in most transcripts, such
// as names of members and types.
func Word(raw []byte) (string, bool) {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		inner := raw[1 : n-1]
		for i := wordHash(len(inner), inner[0], inner[len(inner)-1]); words[i] != ""; i++ {
			if words[i] == string(inner) {
				return words[i], true
			}
		}
	}
	return String(raw)
}

// wordHash returns the index in words at which the search for a word begins.
func wordHash(size int, first, last byte) uint8 {
	return uint8(38*size) + 6*first + 11*last
}

// words is a hash table of the known words, with linear probing. A lookup in a map would
// take longer than reading the word.
var words = func() (words [256]string) {
	for word := range strings.FieldsSeq(`
		type id ts batch part mid idem idemHash content text role api model stop_reason usage request_id ext
		tool_use_id name input is_error source thinking signature data media_type url cache_control citations caller
		input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens cache_creation service_tier
		v key gen created summary firstKeptEntryId coversTo turnsBefore tokensBefore tokensAfter
		after thought promptHash read
		clips entry block to title owner labels ttl keep window factor status contexts skill
		uri context_type abstract output crc
		session user assistant tool_use tool_result compaction clip rewind system meta current calibration tool_status used
		commit custom image document redacted_thinking context anthropic openai
		end_turn max_tokens stop_sequence pause_turn refusal aborted error`) {
		i := wordHash(len(word), word[0], word[len(word)-1])
		for words[i] != "" {
			i++
		}
		words[i] = word
	}
	return words
}()

// String decodes a JSON string. Lone surrogates become U+FFFD.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	i := bytes.IndexByte(inner, '\\')
	if i < 0 {
		return string(inner), true
	}
	var sb strings.Builder
	sb.Grow(len(inner))
	for i >= 0 {
		sb.Write(inner[:i])
		inner = inner[i:]
		n := escapeLen(inner)
		switch n {
		case 0:
			return "", false
		case 2:
			sb.WriteByte(escapes[inner[1]])
		default:
			var r rune
			r, n = unescape(inner)
			sb.WriteRune(r)
		}
		inner = inner[n:]
		i = bytes.IndexByte(inner, '\\')
	}
	sb.Write(inner)
	return sb.String(), true
}

// escapes maps characters after a backslash to their meaning.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escapeLen returns the length of the escape at the beginning of s, or 0.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	if escapes[s[1]] != 0 {
		return 2
	}
	if _, ok := hex4(s); ok {
		return 6
	}
	return 0
}

// unescape decodes the \u escape at the beginning of s, or both escapes of a surrogate
// pair. It also returns the length of the escapes in s.
func unescape(s []byte) (rune, int) {
	r, _ := hex4(s)
	if utf16.IsSurrogate(r) {
		if low, ok := hex4(s[6:]); ok {
			if r := utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, 12
			}
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

// hex4 decodes \uXXXX.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}

// Int decodes a JSON number that is a whole number in any spelling (12, 12.0, 1.2e1).
func Int(raw []byte) (int64, bool) {
	if len(raw) <= 18 {
		n, digits := int64(0), true
		for i, c := range raw {
			if c < '0' || c > '9' || c == '0' && i == 0 && len(raw) > 1 {
				digits = false
				break
			}
			n = 10*n + int64(c-'0')
		}
		if digits && len(raw) > 0 {
			return n, true
		}
	}
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
