package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

// appendLine encodes the entry: type, id and ts lead.
func (e Entry) appendLine(dst []byte) []byte {
	o := jsontext.AppendObject(dst)
	o.String("type", e.Type())
	o.OptString("id", e.ID)
	if !e.Time.IsZero() {
		o.Func("ts", func(dst []byte) []byte { return appendTime(dst, e.Time) })
	}
	o.OptInt("batch", int64(e.Batch))
	f, isFragment := e.Body.(Fragment)
	o.OptString("mid", f.Of)
	o.OptInt("part", int64(e.Part))
	o.OptString("idem", e.Idem)
	o.OptString("idemHash", e.IdemHash)
	switch {
	case isFragment:
		f.appendMembers(&o)
	case e.Body != nil:
		rest := o // on the heap, as what is given to an interface is
		e.Body.appendMembers(&rest)
		o = rest
	}
	return o.End()
}

// A checksum is the last member of a line: `,"crc":"`, eight lower-case
// hexadecimal digits and `"}`. The digits are the CRC-32C (Castagnoli) of all
// bytes of the line in front of that comma.
const (
	sealName = `,"crc":"`
	sealEnd  = `"}`
	sealSize = len(sealName) + 8 + len(sealEnd)
)

// Sealed returns e with a line that ends with a checksum, which scans verify;
// see [DamageCRC]. An existing checksum is left alone, even a wrong one:
// sealing again would hide the damage. Code that changes a line encodes it
// again and seals it last. The line of e itself is not modified.
func (e Entry) Sealed() Entry {
	if line := e.Line(); !isSealed(line) {
		e.line = seal(slices.Clip(slices.Clone(line)))
	}
	return e
}

// seal appends a checksum to a line. It overwrites the last byte of the slice,
// so the caller must own it.
func seal(line []byte) []byte {
	line = line[:len(line)-1]
	digits := checksum(line)
	return append(append(append(line, sealName...), digits[:]...), sealEnd...)
}

// checksum returns the digits of the checksum of data.
func checksum(data []byte) (digits [8]byte) {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	for i := range digits {
		digits[i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return digits
}

// isSealed reports whether a line ends with a checksum, right or wrong.
func isSealed(line []byte) bool {
	n := len(line) - sealSize
	return n > 0 && string(line[n:n+len(sealName)]) == sealName && string(line[len(line)-len(sealEnd):]) == sealEnd
}

// Intact reports whether the checksum of a line matches it. A line without a
// checksum is intact. The line must have no white space around it.
//
// Intact also recognises a checksum whose member name was damaged. Otherwise
// one wrong byte could turn a sealed line into one that looks as if it had
// never been sealed.
func Intact(line []byte) bool {
	n := len(line) - sealSize
	if n <= 0 || line[n] != ',' || string(line[n+5:n+8]) != `":"` || string(line[len(line)-2:]) != sealEnd {
		return true // nothing at the end of the line looks like a checksum
	}
	digits := checksum(line[:n])
	agrees := string(line[n+len(sealName):len(line)-len(sealEnd)]) == string(digits[:])
	return agrees == isSealed(line)
}

// appendTime appends a time as a JSON string: in UTC, in microseconds without
// trailing zeros.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().Truncate(time.Microsecond).AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

// checkLine returns an error for a line that must not be written.
func checkLine(line []byte, max int) error {
	if len(line) > max {
		return fmt.Errorf("transcript: an entry of %d bytes is over the limit of %d: split it or store the data elsewhere", len(line), max)
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return errors.New("transcript: internal error: a line break inside a line")
	}
	return nil
}

func (h Header) appendMembers(o *jsontext.Object) {
	o.Int("v", int64(h.Version))
	o.String("key", h.Key)
	o.Int("gen", h.Gen)
	if !h.Created.IsZero() {
		o.Func("created", func(dst []byte) []byte { return appendTime(dst, h.Created) })
	}
	h.Meta.appendMembers(o)
}

func (f Fragment) appendMembers(o *jsontext.Object) {
	o.OptString("api", f.API)
	o.OptString("model", f.Model)
	o.OptString("stop_reason", string(f.StopReason))
	if !f.Usage.IsZero() {
		o.Func("usage", f.Usage.appendJSON)
	}
	o.OptString("request_id", f.RequestID)
	o.OptValue("ext", f.Ext)
	switch f.Kind {
	case TypeToolUse:
		if len(f.Content) != 1 {
			return
		}
		if c, ok := f.Content[0].(ToolCallBlock); ok {
			o.String("tool_use_id", c.ID)
			o.String("name", c.Name)
			o.OptValue("input", c.Input)
			writeLineExtra(o, f.Kind, c.Extra)
		}
	case TypeToolResult:
		if len(f.Content) != 1 {
			return
		}
		if r, ok := f.Content[0].(ToolResultBlock); ok {
			o.String("tool_use_id", r.CallID)
			if len(r.Content) > 0 {
				o.Func("content", r.appendContent)
			}
			o.Bool("is_error", r.IsError)
			writeLineExtra(o, f.Kind, r.Extra)
		}
	default:
		o.Func("content", func(dst []byte) []byte { return appendContent(dst, f.Content, f.plain) })
	}
}

func (c Compaction) appendMembers(o *jsontext.Object) {
	o.String("summary", c.Summary)
	o.OptString("firstKeptEntryId", c.FirstKept)
	o.OptString("coversTo", c.CoversTo)
	o.OptInt("turnsBefore", int64(c.TurnsBefore))
	o.OptInt("tokensBefore", int64(c.TokensBefore))
	o.OptInt("tokensAfter", int64(c.TokensAfter))
}

func (c Clip) appendMembers(o *jsontext.Object) {
	o.Func("clips", func(dst []byte) []byte {
		dst = append(dst, '[')
		for i, clip := range c.Clips {
			if i > 0 {
				dst = append(dst, ',')
			}
			o := jsontext.AppendObject(dst)
			o.String("entry", clip.Entry)
			if clip.Block != nil {
				o.Int("block", int64(*clip.Block))
			}
			o.String("content", clip.Content)
			dst = o.End()
		}
		return append(dst, ']')
	})
}

func (r Rewind) appendMembers(o *jsontext.Object) { o.String("to", r.To) }

func (m Meta) appendMembers(o *jsontext.Object) {
	if m.Title != nil {
		o.String("title", *m.Title)
	}
	if m.Owner != nil {
		o.String("owner", *m.Owner)
	}
	if m.Labels != nil {
		o.Func("labels", func(dst []byte) []byte { return appendStrings(dst, m.Labels) })
	}
	if m.TTL != nil {
		o.Int("ttl", *m.TTL)
	}
	if m.Pinned != nil {
		o.Bool("pinned", *m.Pinned)
	}
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, s)
	}
	return append(dst, ']')
}

func (c Current) appendMembers(o *jsontext.Object) { o.Int("gen", c.Gen) }

func (c Calibration) appendMembers(o *jsontext.Object) {
	o.String("model", c.Model)
	o.OptInt("window", int64(c.Window))
	if c.Factor != 0 {
		o.Func("factor", func(dst []byte) []byte { return strconv.AppendFloat(dst, c.Factor, 'g', -1, 64) })
	}
	o.OptInt("prompt", int64(c.Prompt))
	o.OptInt("failures", int64(c.Failures))
	o.OptInt("failedAt", int64(c.FailedAt))
}

func (s ToolStatus) appendMembers(o *jsontext.Object) {
	o.String("tool_use_id", s.CallID)
	o.String("status", s.Status)
}

func (u Used) appendMembers(o *jsontext.Object) {
	if u.Contexts != nil {
		o.Func("contexts", func(dst []byte) []byte { return appendStrings(dst, u.Contexts) })
	}
	o.OptValue("skill", u.Skill)
}

func (c Commit) appendMembers(o *jsontext.Object) {
	o.String("archive", c.Archive)
	o.OptString("firstEntry", c.FirstEntry)
	o.OptString("lastEntry", c.LastEntry)
	o.OptString("abstract", c.Abstract)
	o.OptString("overview", c.Overview)
}

func (c Custom) appendMembers(o *jsontext.Object) {
	o.String("name", c.Name)
	o.OptValue("data", c.Data)
}

func (u Unknown) appendMembers(o *jsontext.Object) { o.OptBool("critical", u.Critical) }

func writeLineExtra(o *jsontext.Object, kind string, extra Extra) {
	var inner Extra
	for name := range extra {
		if lineMember(kind, name) {
			inner = inner.with(name, extra[name])
		}
	}
	if inner == nil {
		writeExtra(o, extra)
		return
	}
	o.Func("extra", func(dst []byte) []byte {
		in := jsontext.AppendObject(dst)
		return endWith(&in, inner)
	})
	rest := maps.Clone(extra)
	maps.DeleteFunc(rest, func(name string, _ json.RawMessage) bool { return lineMember(kind, name) })
	writeExtra(o, rest)
}

// MarshalBlock returns the JSON of b.
func MarshalBlock(b Block) json.RawMessage { return b.appendJSON(nil) }

// appendContent appends the JSON of content: a string if plain is set and the
// content is one text without extras, an array otherwise.
func appendContent(dst []byte, blocks []Block, plain bool) []byte {
	if plain && len(blocks) == 1 {
		if t, ok := blocks[0].(TextBlock); ok && len(t.Extra) == 0 {
			return jsontext.AppendString(dst, t.Text)
		}
	}
	dst = append(dst, '[')
	for i, b := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if b == nil {
			dst = append(dst, "null"...) // a caller's bug; NewBatch refuses it
			continue
		}
		dst = b.appendJSON(dst)
	}
	return append(dst, ']')
}

func blockObject(dst []byte, kind string) jsontext.Object {
	o := jsontext.AppendObject(dst)
	o.String("type", kind)
	return o
}

// endWith writes extra and closes the object.
func endWith(o *jsontext.Object, extra Extra) []byte {
	writeExtra(o, extra)
	return o.End()
}

// writeExtra writes the members of extra in the order of their names.
func writeExtra(o *jsontext.Object, extra Extra) {
	if len(extra) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name != "type" { // it would change what the object is
			o.Value(name, extra[name])
		}
	}
}

func (b TextBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "text")
	o.String("text", b.Text)
	return endWith(&o, b.Extra)
}

func (b ImageBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "image")
	o.Func("source", b.Source.appendJSON)
	return endWith(&o, b.Extra)
}

func (b DocumentBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "document")
	o.Func("source", b.Source.appendJSON)
	o.OptString("title", b.Title)
	o.OptString("context", b.Context)
	return endWith(&o, b.Extra)
}

func (s Source) appendJSON(dst []byte) []byte {
	o := blockObject(dst, s.Type)
	o.OptString("media_type", s.MediaType)
	o.OptString("data", s.Data)
	o.OptString("url", s.URL)
	o.OptString("file_id", s.FileID)
	return endWith(&o, s.Extra)
}

func (b ToolCallBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "tool_use")
	o.String("id", b.ID)
	o.String("name", b.Name)
	o.OptValue("input", b.Input)
	return endWith(&o, b.Extra)
}

func (b ToolResultBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "tool_result")
	o.String("tool_use_id", b.CallID)
	if len(b.Content) > 0 {
		o.Func("content", b.appendContent)
	}
	o.OptBool("is_error", b.IsError)
	return endWith(&o, b.Extra)
}

func (b ToolResultBlock) appendContent(dst []byte) []byte {
	return appendContent(dst, b.Content, b.plain)
}

func (b ThinkingBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "thinking")
	o.String("thinking", b.Thinking)
	o.OptString("signature", b.Signature)
	return endWith(&o, b.Extra)
}

func (b RedactedThinkingBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "redacted_thinking")
	o.String("data", b.Data)
	return endWith(&o, b.Extra)
}

func (b ContextBlock) appendJSON(dst []byte) []byte {
	o := blockObject(dst, "context")
	o.String("uri", b.URI)
	o.OptString("context_type", b.Kind)
	o.OptString("abstract", b.Abstract)
	return endWith(&o, b.Extra)
}

func (b RawBlock) appendJSON(dst []byte) []byte {
	if len(b.JSON) == 0 {
		return append(dst, `{"type":"raw"}`...)
	}
	return jsontext.AppendValue(dst, b.JSON)
}
