package transcript

import (
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

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

// decodeKnownBlock returns nil for an unknown type, for a block without the
// member that makes it one of its type, and for a member of the wrong JSON type.
func decodeKnownBlock(kind string, data []byte) (block Block) {
	var c codec
	switch kind {
	case "text":
		var b TextBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "image":
		var b ImageBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "document":
		var b DocumentBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "tool_use":
		var b ToolCallBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "tool_result":
		var b ToolResultBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "thinking":
		var b ThinkingBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "redacted_thinking":
		var b RedactedThinkingBlock
		c.object(data, func() { b.members(&c) })
		block = b
	case "context":
		var b ContextBlock
		c.object(data, func() { b.members(&c) })
		block = b
	}
	if !c.found || c.bad != "" {
		return nil
	}
	return block
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

// MarshalJSON implements [encoding/json.Marshaler]; see [MarshalBlock].
func (b ToolCallBlock) MarshalJSON() ([]byte, error) { return MarshalBlock(b), nil }

// UnmarshalJSON implements [encoding/json.Unmarshaler]; see [UnmarshalBlock].
func (b *ToolCallBlock) UnmarshalJSON(data []byte) error {
	if jsontext.IsNull(data) {
		return nil
	}
	block, err := UnmarshalBlock(data)
	if err != nil {
		return err
	}
	call, ok := block.(ToolCallBlock)
	if !ok {
		return fmt.Errorf("transcript: a block of type %q, not tool_use", block.blockType())
	}
	*b = call
	return nil
}
