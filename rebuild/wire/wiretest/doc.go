// Package wiretest is the other side of package wire, for tests: the rules of
// five APIs, and services that speak like them.
//
// Each [API] reads a request with its Decode, which also judges it as strictly as
// the provider does and in the provider's words, and writes answers, streams and
// errors as the provider does. [Validate] judges a request before it is rendered,
// by the rules of the Messages API, whose blocks are those of package transcript.
// [ValidateNext] looks at two requests: whether the second only adds to the first.
//
// Nothing here shares code with the fold, the renderers and the readers, so each
// tests the other. No running program imports this package; package
// guard/guardtest makes a model of it that agents can be run against.
package wiretest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
)

// Violation is one rule that a request breaks.
type Violation struct {
	Rule    string // short name of the rule; the lists are at the Decode methods
	Message int    // index of the message, -1 if it is about none
	Block   int    // index in the message's content, -1 if it is about none
	Text    string // in the provider's own words where they are known
}

// String returns the rule and the text.
func (v Violation) String() string { return v.Rule + ": " + v.Text }

// Request is what the body of a request says, as far as it could be read.
type Request struct {
	transcript.Request
	// Stream says that the answer was asked for as a stream.
	Stream bool
	// HasTools says that it defines tools, be they the provider's own.
	HasTools bool
}

// A judge collects what is wrong with a request while it is read.
type judge struct {
	req   Request
	found []Violation
}

func (j *judge) flag(rule string, message, block int, format string, args ...any) {
	j.found = append(j.found, Violation{rule, message, block, fmt.Sprintf(format, args...)})
}

// say adds blocks to the messages. Blocks of one role that follow each other are
// one message.
func (j *judge) say(role transcript.Role, blocks ...transcript.Block) {
	if n := len(j.req.Messages); n > 0 && j.req.Messages[n-1].Role == role {
		j.req.Messages[n-1].Content = append(j.req.Messages[n-1].Content, blocks...)
		return
	}
	j.req.Messages = append(j.req.Messages, transcript.Message{Role: role, Content: blocks})
}

// isJSON reports whether body is JSON in UTF-8.
func isJSON(body []byte) bool { return json.Valid(body) && utf8.Valid(body) }

// tree decodes a body into maps, lists and plain values; numbers keep their
// spelling. It returns nil for what is no object.
func tree(body []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v map[string]any
	if !isJSON(body) || d.Decode(&v) != nil {
		return nil
	}
	return v
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// integer returns a number, and whether v is one that is an integer.
func integer(v any) (int, bool) {
	n, _ := v.(json.Number)
	i, err := strconv.Atoi(n.String())
	return i, err == nil
}

// unknown returns the names of the members of obj that are not among known.
func unknown[V any](obj map[string]V, known ...string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(obj)), func(name string) bool { return slices.Contains(known, name) })
}

// members returns the members of a JSON object.
func members(value json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	err := json.Unmarshal(value, &m)
	return m, err == nil && m != nil && utf8.Valid(value)
}

func isNull(value json.RawMessage) bool {
	value = bytes.Trim(value, " \t\r\n")
	return len(value) == 0 || string(value) == "null"
}

// jsonText returns the text of a JSON string, empty if value is none.
func jsonText(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s)
	return s
}

// isBytes reports whether s is base64 of at least one byte.
func isBytes(s string) bool {
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return false
	}
	if _, err := base64.StdEncoding.DecodeString(s); err == nil {
		return true
	}
	_, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil
}

// halfSurrogate looks in valid JSON for an escaped half of a surrogate pair,
// which is no character. It returns the offset of the first and what Anthropic
// says about it, or -1.
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
