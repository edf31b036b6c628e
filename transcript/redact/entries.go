package redact

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Entries returns the entries of one append, or of several whole ones, with their texts
// as hook returns them. Texts are messages, reasoning, results, summaries, titles, drafts
// and whatever else a line says. In the input of a call, in data of an application and in
// the lines of other programs that an import keeps, every string is a text; hook is called
// with each of them a second time with the name of its member, as in password="x". It is
// not called with IDs, names, types, signatures, numbers and the bytes of media.
//
// An answer that hook changes loses its reasoning, which was signed for other words. A
// changed line with a checksum gets a new one. Entries does not modify entries. It
// fails if an entry cannot be written as a line.
func Entries(entries []transcript.Entry, hook func(text string) string) ([]transcript.Entry, error) {
	out := make([]transcript.Entry, len(entries))
	answers := map[string]bool{} // by the ID of their first line: that they were changed
	for i, e := range entries {
		got, changed, err := redactEntry(e, hook)
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
		out[i] = got
		if id, ok := answerOf(e); ok && changed {
			answers[id] = true
		}
	}
	for i, e := range out {
		if id, ok := answerOf(e); !ok || !answers[id] {
			continue
		}
		bare, err := unreasoned(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
		out[i] = bare
	}
	return out, nil
}

// answerOf returns the ID of the first line of the answer that an entry is part of.
func answerOf(e transcript.Entry) (id string, ok bool) {
	f, ok := e.Body.(transcript.MessageLine)
	return cmp.Or(f.Of, e.ID), ok && f.Role == transcript.RoleAssistant
}

func redactEntry(e transcript.Entry, hook func(string) string) (_ transcript.Entry, changed bool, err error) {
	r := redaction{hook: func(text string) string { return strings.ToValidUTF8(hook(text), "\uFFFD") }}
	switch e.Body.(type) {
	case transcript.Commit, transcript.Extracted:
		r.refers = true
	}
	line := r.object(e.Line(), ofLine)
	if !r.changed {
		return e, false, nil
	}
	e, err = transcript.ParseEntry(checksum.Renew(line))
	return e, true, err
}

func unreasoned(e transcript.Entry) (transcript.Entry, error) {
	gone := false
	line := jsontext.MapMembers(e.Line(), func(name string, v []byte) []byte {
		if name != "content" {
			return v
		}
		return jsontext.MapElements(v, func(block []byte) []byte {
			kind, _ := jsontext.Member(block, "type")
			if name, _ := jsontext.String(kind); name != "thinking" && name != "redacted_thinking" {
				return block
			}
			gone = true
			return nil
		})
	})
	if !gone {
		return e, nil
	}
	return transcript.ParseEntry(checksum.Renew(line))
}

// redaction passes the strings of a line to a hook.
type redaction struct {
	hook    func(string) string
	refers  bool // the line is about others: see referring
	changed bool
}

// The place of a value decides which of its strings are texts.
type where int

const (
	ofLine   where = iota // members of a line, a block or an opaque item; values under opaque names are not texts
	ofSource              // in the line of another program: all but signatures are texts
	ofInput               // in the input of a call, or data of an application: all are texts
)

// opaqueNames are members whose strings name something or are for machines.
var opaqueNames = wordSet(`type id ts mid of idem idemHash crc entry to key call by api model stop_reason stop_sequence request_id after thought promptHash
	role name tool status decision created firstKeptEntryId coversTo read firstEntry lastEntry agent session owner labels queued
	media_type sha256 context_type tool_use_id call_id item_id file_id container_id server_name toolset_name tool_name tool_names`)

// referring are members of commits and extractions that name entries and records.
var referring = wordSet("commit first last open diff")

// signatureNames are members that only their maker can read.
var signatureNames = wordSet("signature thoughtSignature thought_signature thinkingSignature textSignature encrypted_content encrypted_index encrypted_stdout redactedContent")

// freeNames are members whose value is the input of a call, or an application's.
var freeNames = wordSet("input arguments args app value skill")

func wordSet(words string) func(string) bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return func(name string) bool { return set[name] }
}

func (r *redaction) object(obj []byte, in where) []byte {
	return jsontext.MapMembers(obj, func(name string, v []byte) []byte {
		switch {
		case in != ofInput && signatureNames(name), in == ofLine && (opaqueNames(name) || r.refers && referring(name)):
			return v
		case name == "src" && in == ofLine && jsontext.IsString(v):
			return r.source(v)
		case freeNames(name), name == "data" && !jsontext.IsString(v):
			return r.value(name, v, ofInput)
		}
		return r.value(name, v, in)
	})
}

// value returns a value with its texts redacted. name is the name of its member.
func (r *redaction) value(name string, v []byte, in where) []byte {
	switch {
	case jsontext.IsObject(v):
		return r.object(v, in)
	case jsontext.IsArray(v):
		return jsontext.MapElements(v, func(e []byte) []byte { return r.value(name, e, in) })
	case !jsontext.IsString(v):
		return v
	}
	text, _ := jsontext.String(v)
	if isMedia(text) {
		return v
	}
	got := r.hook(text)
	if in != ofLine {
		got = r.assigned(name, got)
	}
	if got == text {
		return v // as it was spelled
	}
	r.changed = true
	return jsontext.AppendString(nil, got)
}

// assigned passes a text to the hook together with the name of its member, as
// an assignment: a password may look like any other word.
func (r *redaction) assigned(name, text string) string {
	before, after := name+`="`, `"`
	if strings.ContainsAny(text, "\"\n") {
		before, after = name+"=", ""
	}
	got, ok := strings.CutPrefix(r.hook(before+text+after), before)
	if !ok {
		return text
	}
	if got, ok = strings.CutSuffix(got, after); !ok {
		return text
	}
	return got
}

// source returns the line of another program, which is a string here.
func (r *redaction) source(v []byte) []byte {
	text, _ := jsontext.String(v)
	if !json.Valid([]byte(text)) || !jsontext.IsObject([]byte(text)) {
		return r.value("src", v, ofLine)
	}
	in := redaction{hook: r.hook}
	out := in.object([]byte(text), ofSource)
	if !in.changed {
		return v
	}
	r.changed = true
	return jsontext.AppendString(nil, string(out))
}

// minMedia is how long a text is that is taken for media if it could be base64.
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
