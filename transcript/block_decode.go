package transcript

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

var errShape = errors.New("not of the expected shape")

// UnmarshalBlock decodes one block. Any valid JSON object with a string member
// "type" is a block; one of an unknown form becomes a [RawBlock].
func UnmarshalBlock(data []byte) (Block, error) {
	if !jsontext.Valid(data) {
		return nil, errors.New("transcript: block: not valid JSON")
	}
	b, err := decodeBlock(data, false)
	if err != nil {
		return nil, fmt.Errorf("transcript: block: %w", err)
	}
	return b, nil
}

func typeMember(obj []byte) string {
	raw, _ := jsontext.Member(obj, "type")
	s, _ := jsontext.String(raw)
	return s
}

// decodeBlock decodes a block from valid JSON.
func decodeBlock(data []byte, inResult bool) (Block, error) {
	data = jsontext.Trim(data)
	kind := typeMember(data)
	if !jsontext.IsObject(data) || kind == "" {
		return nil, errShape
	}
	if !inResult || kind != "tool_result" {
		if b := decodeKnownBlock(kind, data); b != nil {
			return b, nil
		}
	}
	return RawBlock{JSON: slices.Clone(data), kind: kind}, nil
}

// neededMember names the member that a block of this type cannot lack.
func neededMember(kind string) string {
	switch kind {
	case "text", "thinking":
		return kind
	case "image", "document":
		return "source"
	case "tool_use":
		return "id"
	case "tool_result":
		return "tool_use_id"
	case "redacted_thinking":
		return "data"
	case "context":
		return "uri"
	}
	return ""
}

// decodeKnownBlock returns nil for an unknown type and for a member of the
// wrong JSON type.
func decodeKnownBlock(kind string, data []byte) Block {
	m := members{ok: true, need: neededMember(kind)}
	switch kind {
	case "text":
		var b TextBlock
		m.each(data, func(name string, v []byte) bool {
			return name == "text" && m.str(&b.Text, v)
		})
		b.Extra = m.extra
		return m.block(b)
	case "image":
		var b ImageBlock
		m.each(data, func(name string, v []byte) bool {
			return name == "source" && m.source(&b.Source, v)
		})
		b.Extra = m.extra
		return m.block(b)
	case "document":
		var b DocumentBlock
		m.each(data, func(name string, v []byte) bool {
			switch name {
			case "source":
				return m.source(&b.Source, v)
			case "title":
				return !jsontext.IsNull(v) && m.str(&b.Title, v)
			case "context":
				return !jsontext.IsNull(v) && m.str(&b.Context, v)
			}
			return false
		})
		b.Extra = m.extra
		return m.block(b)
	case "tool_use":
		var b ToolCallBlock
		m.each(data, func(name string, v []byte) bool {
			switch name {
			case "id":
				return m.str(&b.ID, v)
			case "name":
				return m.str(&b.Name, v)
			case "input":
				b.Input = slices.Clone(v)
				return true
			}
			return false
		})
		b.Extra = m.extra
		return m.block(b)
	case "tool_result":
		var b ToolResultBlock
		m.each(data, func(name string, v []byte) bool {
			switch name {
			case "tool_use_id":
				return m.str(&b.CallID, v)
			case "content":
				return m.content(&b.Content, &b.plain, v, true)
			case "is_error":
				return m.flag(&b.IsError, v)
			}
			return false
		})
		b.Extra = m.extra
		return m.block(b)
	case "thinking":
		var b ThinkingBlock
		m.each(data, func(name string, v []byte) bool {
			switch name {
			case "thinking":
				return m.str(&b.Thinking, v)
			case "signature":
				return m.str(&b.Signature, v)
			}
			return false
		})
		b.Extra = m.extra
		return m.block(b)
	case "redacted_thinking":
		var b RedactedThinkingBlock
		m.each(data, func(name string, v []byte) bool {
			return name == "data" && m.str(&b.Data, v)
		})
		b.Extra = m.extra
		return m.block(b)
	case "context":
		var b ContextBlock
		m.each(data, func(name string, v []byte) bool {
			switch name {
			case "uri":
				return m.str(&b.URI, v)
			case "context_type":
				return m.str(&b.Kind, v)
			case "abstract":
				return m.str(&b.Abstract, v)
			}
			return false
		})
		b.Extra = m.extra
		return m.block(b)
	}
	return nil
}

// decodeContent decodes content: null, a string or an array of blocks. A tool
// result inside a tool result is not decoded, so nesting costs nothing.
func decodeContent(v []byte, inResult bool) (blocks []Block, plain bool, err error) {
	switch {
	case jsontext.IsNull(v):
		return nil, false, nil
	case jsontext.IsString(v):
		s, ok := jsontext.String(v)
		if !ok {
			return nil, false, errShape
		}
		return []Block{TextBlock{Text: s}}, true, nil
	case jsontext.IsArray(v):
		for e := range jsontext.Elements(v) {
			b, err := decodeBlock(e, inResult)
			if err != nil {
				return nil, false, err
			}
			blocks = append(blocks, b)
		}
		return blocks, false, nil
	}
	return nil, false, errShape
}

// with returns e with a copy of a member added. e may be nil.
func (e Extra) with(name string, value []byte) Extra {
	if e == nil {
		e = Extra{}
	}
	e[name] = jsontext.AppendValue(nil, value)
	return e
}

// members decodes the members of one object. ok becomes false at the first
// member whose value has the wrong type.
type members struct {
	ok bool

	// Of a block.
	need  string // a member without which it is not of its type
	found bool   // whether need was there
	extra Extra

	// Of an entry.
	bad    string // the member that made ok false
	typed  bool   // its type is settled
	retype bool   // it has a second type
}

// each calls known for every member and stores those it does not take in extra.
func (m *members) each(data []byte, known func(name string, v []byte) bool) {
	for name, v := range jsontext.Members(data) {
		switch {
		case name == "type":
		case known(name, v):
			m.found = m.found || name == m.need
		default:
			m.extra = m.extra.with(name, v)
		}
	}
}

// block returns b if its members could be decoded, nil otherwise.
func (m *members) block(b Block) Block {
	if !m.ok || !m.found {
		return nil
	}
	return b
}

func (m *members) str(dst *string, v []byte) bool {
	s, ok := jsontext.String(v)
	*dst = s
	m.ok = m.ok && ok
	return true
}

// word is str for values from a small set, which need no allocation.
func (m *members) word(dst *string, v []byte) {
	s, ok := jsontext.Word(v)
	*dst = s
	m.ok = m.ok && ok
}

func (m *members) flag(dst *bool, v []byte) bool {
	b, ok := jsontext.Bool(v)
	*dst = b
	m.ok = m.ok && (ok || jsontext.IsNull(v))
	return true
}

func (m *members) content(dst *[]Block, plain *bool, v []byte, inResult bool) bool {
	var err error
	*dst, *plain, err = decodeContent(v, inResult)
	m.ok = m.ok && err == nil
	return true
}

func (m *members) source(dst *Source, v []byte) bool {
	if !jsontext.IsObject(v) {
		m.ok = false
		return true
	}
	*dst = Source{}
	s := members{ok: true}
	for name, v := range jsontext.Members(v) {
		switch name {
		case "type":
			s.str(&dst.Type, v)
		case "media_type":
			s.str(&dst.MediaType, v)
		case "data":
			s.str(&dst.Data, v)
		case "url":
			s.str(&dst.URL, v)
		case "file_id":
			s.str(&dst.FileID, v)
		default:
			dst.Extra = dst.Extra.with(name, v)
		}
	}
	m.ok = m.ok && s.ok
	return true
}

func (m *members) num(dst *int, v []byte) {
	n, ok := jsontext.Int(v)
	*dst = int(n)
	m.ok = m.ok && ok
}

func (m *members) num64(dst *int64, v []byte) {
	n, ok := jsontext.Int(v)
	*dst = n
	m.ok = m.ok && ok
}

// time decodes a time and ignores one it cannot read: a wrong clock is no
// reason to lose a message.
func (m *members) time(dst *time.Time, v []byte) {
	var t time.Time
	if jsontext.IsString(v) && t.UnmarshalJSON(v) == nil { // allocates nothing
		*dst = t.UTC()
	} else if s, ok := jsontext.String(v); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			*dst = t.UTC()
		}
	}
}

func (m *members) strings(dst *[]string, v []byte) {
	*dst = []string{}
	for e := range jsontext.Elements(v) {
		var s string
		m.str(&s, e)
		*dst = append(*dst, s)
	}
	m.ok = m.ok && jsontext.IsArray(v)
}

func (m *members) clipping(v []byte) Clipping {
	var c Clipping
	m.ok = m.ok && jsontext.IsObject(v)
	for name, v := range jsontext.Members(v) {
		switch name {
		case "entry":
			m.str(&c.Entry, v)
		case "block":
			c.Block = new(int)
			m.num(c.Block, v)
		case "content":
			m.str(&c.Content, v)
		}
	}
	return c
}
