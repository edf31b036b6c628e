package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Redacted returns the entries of one append as they would be written now: changed by
// [Options].Redact, or as they are if that is nil. It is for programs that pass
// entries on, such as the exports of package exchange, because a session can have
// lines that are older than the hook. The error says that an entry cannot be written
// as a line. Redacted does not modify entries.
func (s *Session) Redacted(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	got, err := s.store.redacted(ctx, entries)
	return got, s.store.wrap("redact", s.ref, err)
}

// redacted returns entries as the hook of the options lets them be written. They
// are whole batches. An answer that is changed loses its reasoning, which was
// signed for what it said.
func (st *Store) redacted(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	if st.opts.Redact == nil {
		return entries, nil
	}
	out := make([]transcript.Entry, len(entries))
	answers := map[string]bool{} // by the ID of their first line: that they were changed
	for i, e := range entries {
		got, changed, err := st.redactEntry(ctx, e)
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
		bare, err := st.unreasoned(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
		out[i] = bare
	}
	return out, nil
}

// answerOf returns the ID of the first line of the answer that an entry is part of.
func answerOf(e transcript.Entry) (id string, ok bool) {
	f, ok := e.Body.(transcript.Fragment)
	return cmp.Or(f.Of, e.ID), ok && f.Role == transcript.RoleAssistant
}

// redactEntry passes the texts of a line to the hook.
func (st *Store) redactEntry(ctx context.Context, e transcript.Entry) (_ transcript.Entry, changed bool, err error) {
	hook := func(text string) string { return strings.ToValidUTF8(st.opts.Redact(ctx, text), "\uFFFD") }
	r := redaction{hook: hook}
	switch e.Body.(type) {
	case transcript.Commit, transcript.Extracted:
		r.refers = true
	}
	line := r.object(e.Line(), ofLine)
	if !r.changed {
		return e, false, nil
	}
	e, err = st.reparsed(line)
	return e, true, err
}

// redactBody passes the texts of a body to the hook before it is measured or handed to
// the caller and to observers, and not only when it is written.
func redactBody[T transcript.Body](ctx context.Context, st *Store, body T) (T, error) {
	got, err := st.redacted(ctx, []transcript.Entry{{Body: body}})
	if err != nil {
		return body, err
	}
	if b, ok := got[0].Body.(T); ok {
		body = b
	}
	return body, nil
}

// unreasoned returns a line of an answer without reasoning.
func (st *Store) unreasoned(e transcript.Entry) (transcript.Entry, error) {
	gone := false
	line := mapMembers(e.Line(), func(name string, v []byte) []byte {
		if name != "content" {
			return v
		}
		return mapElements(v, func(block []byte) []byte {
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
	return st.reparsed(line)
}

// reparsed returns the entry of a line that was written again; its checksum is made
// anew.
func (st *Store) reparsed(line []byte) (transcript.Entry, error) {
	e, err := transcript.ParseEntry(mapMembers(line, func(name string, v []byte) []byte {
		if name == "crc" {
			return nil
		}
		return v
	}))
	if err != nil {
		return e, err
	}
	e = st.Sealed(e)
	return e, checkReadable(e)
}

// mapMembers returns an object with what change makes of the value of each member; nil
// leaves the member out.
func mapMembers(obj []byte, change func(name string, v []byte) []byte) []byte {
	var out jsontext.Object
	for name, v := range jsontext.Members(obj) {
		if v = change(name, v); v != nil {
			out.Func(name, func(dst []byte) []byte { return append(dst, v...) })
		}
	}
	return out.End()
}

// mapElements is mapMembers for an array.
func mapElements(array []byte, change func(v []byte) []byte) []byte {
	out := []byte{'['}
	for v := range jsontext.Elements(array) {
		if v = change(v); v == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// redaction passes the strings of a line to a hook.
type redaction struct {
	hook    func(string) string
	refers  bool // the line is about others: see referring
	changed bool
}

// Where a value is says which strings are texts.
type where int

const (
	ofLine   where = iota // members of a line, a block or an opaque item: those with an opaque name are no texts
	ofSource              // in the line of another program: all but signatures are texts
	ofInput               // in the input of a call, or data of an application: all are texts
)

// opaqueNames are members whose strings name something or are for machines.
var opaqueNames = wordSet(`type id ts mid of idem idemHash crc entry to key call by api model stop_reason stop_sequence request_id after thought promptHash
	role name tool status decision created firstKeptEntryId coversTo read archive firstEntry lastEntry agent session owner labels queued
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

// object returns an object with its texts redacted.
func (r *redaction) object(obj []byte, in where) []byte {
	return mapMembers(obj, func(name string, v []byte) []byte {
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

// value returns a value with its texts redacted. Name is that of the member that it
// belongs to.
func (r *redaction) value(name string, v []byte, in where) []byte {
	switch {
	case jsontext.IsObject(v):
		return r.object(v, in)
	case jsontext.IsArray(v):
		return mapElements(v, func(e []byte) []byte { return r.value(name, e, in) })
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
