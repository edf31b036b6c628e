package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/convolog/convolog/internal/jsontext"
)

// appendLine encodes the entry: type, id and ts lead.
func (e Entry) appendLine(dst []byte) []byte {
	c := encoder(dst)
	c.out.String("type", e.Type())
	f, _ := e.Body.(MessageLine)
	e.members(&c, &f.Of)
	encodeBody(&c, e.Body)
	return c.out.End()
}

func encodeBody(c *codec, body Body) {
	switch b := body.(type) {
	case MessageLine:
		b.answer(c)
		switch b.Kind {
		case TypeToolUse:
			if call, ok := b.only().(ToolCallBlock); ok {
				call.line(c)
			}
		case TypeToolResult:
			if result, ok := b.only().(ToolResultBlock); ok {
				result.line(c)
			}
		case TypeUser:
			b.user(c)
		default:
			b.message(c)
		}
	case Unknown:
		b.members(c)
	case nil:
	default:
		if f, ok := formOf(body.kind()); ok { // not for a pointer to a message
			*c = f.encode(*c, body)
		}
	}
}

// only returns the single block of a fragment, or nil.
func (f MessageLine) only() Block {
	if len(f.Content) != 1 {
		return nil
	}
	return f.Content[0]
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

// MarshalBlock returns the JSON of b.
func MarshalBlock(b Block) json.RawMessage { return appendBlock(nil, b) }

func appendBlock(dst []byte, block Block) []byte {
	if raw, ok := block.(RawBlock); ok && len(raw.JSON) > 0 {
		return jsontext.AppendValue(dst, raw.JSON)
	}
	c := encoder(dst)
	c.out.String("type", cmp.Or(block.blockType(), "raw"))
	switch b := block.(type) {
	case TextBlock:
		b.members(&c)
	case ImageBlock:
		b.members(&c)
	case DocumentBlock:
		b.members(&c)
	case ToolCallBlock:
		b.members(&c)
	case ToolResultBlock:
		b.members(&c)
	case ThinkingBlock:
		b.members(&c)
	case RedactedThinkingBlock:
		b.members(&c)
	case ContextBlock:
		b.members(&c)
	}
	return c.out.End()
}

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
		dst = appendBlock(dst, b)
	}
	return append(dst, ']')
}

// writeLineExtra writes the extras of the block that a line contains.
func writeLineExtra(o *jsontext.Object, kind string, extra Extra) {
	var inner Extra
	for name := range extra {
		if lineMember(kind, name) {
			inner = inner.with(name, extra[name])
		}
	}
	if inner == nil {
		extra.write(o)
		return
	}
	o.Func("extra", func(dst []byte) []byte {
		in := jsontext.AppendObject(dst)
		inner.write(&in)
		return in.End()
	})
	rest := maps.Clone(extra)
	maps.DeleteFunc(rest, func(name string, _ json.RawMessage) bool { return lineMember(kind, name) })
	rest.write(o)
}
