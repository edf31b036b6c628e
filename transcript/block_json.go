package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

var errShape = errors.New("not of the expected shape")

// MarshalBlock returns the JSON of b.
func MarshalBlock(b Block) json.RawMessage { return b.appendJSON(nil) }

// UnmarshalBlock decodes one block. Any valid JSON object with a string member
// "type" is a block: what is not understood becomes a [RawBlock].
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

// decodeBlock decodes valid JSON.
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

// neededMember names the member without which a block is not of its type.
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

// decodeKnownBlock returns nil for an unknown type, and when a member has not
// the type it should have.
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

// decodeContent decodes content that is null, a string or an array of blocks.
// In a tool result a tool result is not known, so that nesting costs nothing.
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

// appendContent appends the JSON of content: a string if plain and it is one
// text without extras, else an array.
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

// writeExtra writes extra in the order of names.
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

// with returns e with a copy of a member's value. e may be nil.
func (e Extra) with(name string, value []byte) Extra {
	if e == nil {
		e = Extra{}
	}
	e[name] = jsontext.AppendValue(nil, value)
	return e
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
