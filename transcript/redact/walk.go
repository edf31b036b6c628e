package redact

import (
	"cmp"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/lazy"
)

// The place of a value decides which of its strings are texts.
type where int

const (
	ofLine   where = iota // members of a line, a block or an opaque item; values under opaque names are not texts
	ofSource              // in the line of another program: all but signatures are texts
	ofInput               // in the input of a call, or data of an application: all are texts, and the names of members
)

// opaqueNames are members whose strings name something or are for machines.
var opaqueNames = wordSet(`type id ts mid of idem idemHash crc entry to key call by api model stop_reason stop_sequence request_id after thought promptHash
	role name tool status decision created firstKeptEntryId coversTo read firstEntry lastEntry agent session owner queued
	media_type sha256 context_type tool_use_id call_id item_id file_id container_id server_name toolset_name tool_name tool_names`)

// referring are members of commits and extractions that name entries and records.
var referring = wordSet("commit first last open diff")

// signatureNames are members that only their maker can read.
var signatureNames = wordSet("signature thoughtSignature thought_signature thinkingSignature textSignature encrypted_content encrypted_index encrypted_stdout redactedContent")

// freeNames are members whose value is the input of a call, or an application's.
var freeNames = wordSet("input arguments args app value skill")

// pairNames and valueNames are the members of {"name":"DB_PASSWORD","value":"x"}.
var (
	pairNames  = wordSet("name key header variable parameter Name Key")
	valueNames = wordSet("value val string_value stringValue default Value")
)

func wordSet(words string) func(string) bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return func(name string) bool { return set[name] }
}

// A redaction passes the texts of a JSON value to a hook. It reads the value once, and
// changes no byte outside of changed texts.
type redaction struct {
	hook    func(string) string
	refers  bool // the line is about others: see referring
	changed bool
	names   map[string]string // results of hook for the names of members: rows have the same

	data  []byte
	texts []text // the changed ones
}

// A text is a string in data[at:end].
type text struct {
	at, end  int
	old, new string
}

// redact returns a valid JSON value with its texts redacted.
func (r *redaction) redact(data []byte, in where) []byte {
	r.data = data
	r.value(r.next(0), "", in)
	slices.SortFunc(r.texts, func(a, b text) int { return a.at - b.at })
	var out []byte
	done := 0
	for _, t := range r.texts {
		out = jsontext.AppendString(append(out, data[done:t.at]...), t.new)
		done = t.end
	}
	r.changed = done > 0
	return append(out, data[done:]...)
}

// next returns the index of the next value or sign of structure.
func (r *redaction) next(i int) int {
	for i < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[i]) >= 0 {
		i++
	}
	return i
}

// value redacts the value at data[i] of the member with a name, and returns its end.
func (r *redaction) value(i int, name string, in where) (end int) {
	switch r.data[i] {
	case '{':
		return r.object(i, name, in)
	case '[':
		return r.array(i, name, in)
	}
	end = jsontext.Skip(r.data, i)
	if r.data[i] == '"' {
		r.keep(r.read(i, end, name, in))
	}
	return end
}

func (r *redaction) object(i int, name string, in where) (end int) {
	label := ""
	var values []func()
	for i = r.next(i + 1); r.data[i] != '}'; i = r.next(i) {
		from, to := i, jsontext.Skip(r.data, i)
		member, _ := jsontext.Word(r.data[from:to])
		i = r.next(to)
		inside := in
		if freeNames(member) || member == "data" && r.data[i] != '"' {
			inside = ofInput
		}
		switch {
		case in != ofInput && signatureNames(member), in == ofLine && (opaqueNames(member) || r.refers && referring(member)):
			i = jsontext.Skip(r.data, i)
			continue
		case member == "src" && in == ofLine && r.data[i] == '"':
			i = r.source(i)
			continue
		case in == ofInput:
			r.keep(r.name(from, to))
		}
		if in != ofLine && r.data[i] == '"' {
			at, stop := i, jsontext.Skip(r.data, i)
			if pairNames(member) {
				label, _ = jsontext.String(r.data[at:stop])
			}
			if i = stop; valueNames(member) {
				values = append(values, func() { r.keep(r.read(at, stop, cmp.Or(label, name, member), inside)) })
			} else {
				r.keep(r.read(at, stop, member, inside))
			}
			continue
		}
		i = r.value(i, member, inside)
	}
	for _, read := range values {
		read()
	}
	return i + 1
}

// maxWords is the length of the longest array that may be a command.
const maxWords = 64

func (r *redaction) array(i int, name string, in where) (end int) {
	var words []text
	command := in != ofLine
	for i = r.next(i + 1); r.data[i] != ']'; i = r.next(i) {
		if r.data[i] != '"' {
			command = false
			i = r.value(i, name, in)
			continue
		}
		end := jsontext.Skip(r.data, i)
		words = append(words, r.read(i, end, name, in))
		i = end
	}
	if command && len(words) > 1 && len(words) <= maxWords {
		r.command(words)
	}
	r.keep(words...)
	return i + 1
}

// command passes strings to the hook as a command: "mysql" "-psecret".
func (r *redaction) command(words []text) {
	var line []byte
	for _, w := range words {
		line = append(jsontext.AppendString(line, w.new), ' ')
	}
	got := []byte(r.hook(string(line)))
	list := make([]string, len(words))
	for i := range list {
		end := jsontext.Skip(got, 0)
		word, ok := jsontext.String(got[:end])
		if !ok || end == len(got) || got[end] != ' ' {
			return
		}
		list[i], got = word, got[end+1:]
	}
	for i := range words {
		if len(got) == 0 {
			words[i].new = list[i]
		}
	}
}

// read passes the string in data[at:end] to the hook, alone and then, unless it is a text
// of the library, with the name of its member, as in password="x".
func (r *redaction) read(at, end int, name string, in where) text {
	s, _ := jsontext.String(r.data[at:end])
	t := text{at, end, s, s}
	media := isMedia(s)
	if !media {
		t.new = r.hook(s)
	}
	if in == ofLine || name == "" || media && !secretName.Get().MatchString(name) {
		return t
	}
	got, ok := strings.CutPrefix(r.hook(string(jsontext.AppendString([]byte(name+"="), t.new))), name+"=")
	if end := jsontext.Skip([]byte(got), 0); ok && end == len(got) {
		if got, ok = jsontext.String([]byte(got)); ok {
			t.new = got
		}
	}
	return t
}

// name passes the name of a member to the hook, each name once.
func (r *redaction) name(at, end int) text {
	quoted := string(r.data[at:end])
	if done, ok := r.names[quoted]; ok {
		s, _ := jsontext.String(r.data[at:end])
		return text{at, end, s, done}
	}
	t := r.read(at, end, "", ofInput)
	if r.names == nil {
		r.names = map[string]string{}
	}
	r.names[quoted] = t.new
	return t
}

var secretName = lazy.New(`(?i)` + names)

func (r *redaction) keep(texts ...text) {
	for _, t := range texts {
		if t.new != t.old { // others keep their spelling
			r.texts = append(r.texts, t)
		}
	}
}

// source redacts the line of another program, which is a string at data[i].
func (r *redaction) source(i int) (end int) {
	end = jsontext.Skip(r.data, i)
	s, _ := jsontext.String(r.data[i:end])
	if data := []byte(s); jsontext.IsObject(data) && jsontext.Valid(data) {
		in := redaction{hook: r.hook}
		r.keep(text{i, end, s, string(in.redact(data, ofSource))})
		return end
	}
	r.keep(r.read(i, end, "src", ofLine))
	return end
}

// minMedia is the length from which a text that could be base64 counts as
// media.
const minMedia = 512

// isMedia reports whether a text is the base64 of an image or the like, with or
// without the beginning of a URL.
func isMedia(text string) bool {
	if len(text) < minMedia {
		return false
	}
	if at := strings.Index(text[:minMedia/4], ";base64,"); at > 0 && strings.HasPrefix(text, "data:") {
		text = text[at+len(";base64,"):]
	}
	return strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=-_") == ""
}
