package filedriver

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/session/driver"
)

const (
	rowHead = `{"id":"` // and the ID, in which nothing is escaped
	rowKey  = `","key":"`
)

// appendRow appends the text of a row: what encoding/json makes of it, byte by
// byte, without its reflection. A time that JSON has no form for, one after the
// year 9999, is left out.
func appendRow(dst []byte, r *driver.Row) []byte {
	dst = appendText(dst, `{"id":`, r.ID)
	dst = appendText(dst, `,"key":`, r.Key)
	dst = appendText(dst, `,"agentId":`, r.Agent)
	dst = appendOptText(dst, `,"owner":`, r.Owner)
	dst = appendOptText(dst, `,"title":`, r.Title)
	dst = appendFlag(dst, `,"titleByHand":true`, r.TitleByHand)
	if len(r.Labels) > 0 {
		name := `,"labels":[`
		for _, label := range r.Labels {
			dst = appendText(dst, name, label)
			name = ","
		}
		dst = append(dst, ']')
	}
	dst = appendTime(dst, `,"createdAt":"`, r.CreatedAt)
	dst = appendTime(dst, `,"updatedAt":"`, r.UpdatedAt)
	dst = appendTime(dst, `,"lastUserAt":"`, r.LastUserAt)
	dst = appendInt(dst, `,"messageCount":`, int64(r.Messages))
	dst = appendInt(dst, `,"turnCount":`, int64(r.Turns))
	dst = appendInt(dst, `,"tokenEstimate":`, int64(r.TokenEstimate))
	dst = appendInt(dst, `,"size":`, r.Size)
	dst = appendOptText(dst, `,"lastId":`, r.LastID)
	dst = appendInt(dst, `,"gen":`, r.Gen)
	if r.TTL != 0 {
		dst = appendInt(dst, `,"ttl":`, r.TTL)
	}
	return append(appendFlag(dst, `,"pinned":true`, r.Pinned), '}')
}

func appendOptText(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendText(dst, name, s)
}

func appendText(dst []byte, name, s string) []byte {
	dst = append(append(dst, name...), '"')
	from := 0 // what is before it was appended
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
				dst = appendEscape(append(dst, s[from:i]...), rune(c))
				from = i + 1
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029' {
			dst = appendEscape(append(dst, s[from:i]...), r)
			from = i + n
		}
		i += n
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(dst, name...), n, 10)
}

func appendFlag(dst []byte, member string, set bool) []byte {
	if !set {
		return dst
	}
	return append(dst, member...)
}

// appendTime appends a time, unless it is zero or has no form.
func appendTime(dst []byte, name string, at time.Time) []byte {
	if at.IsZero() {
		return dst
	}
	text, err := at.AppendText(append(dst, name...))
	if err != nil {
		return dst
	}
	return append(text, '"')
}
