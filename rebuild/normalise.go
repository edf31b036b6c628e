package rebuild

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// IsBlank reports whether providers take a text for empty: only white space and
// the separators U+001C to U+001F.
func IsBlank(s string) bool {
	if s != "" && ' ' < s[0] && s[0] < utf8.RuneSelf {
		return false // as nearly every text
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) })
}

// Where a block can be.
const (
	inUser   = "user message"
	inAnswer = "assistant message"
	inResult = "tool result"
)

// normaliseBlock returns a block as it can be there, nil if it cannot.
func (a *assembler) normaliseBlock(entry, where string, b transcript.Block) transcript.Block {
	switch c := b.(type) {
	case transcript.TextBlock:
		if !IsBlank(c.Text) {
			return b
		}
		if where != inResult {
			a.note("blank-text", entry, "")
		}
		return nil
	case transcript.ContextBlock:
		return ContextText(c)
	case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		if where == inAnswer {
			return b
		}
	case transcript.ImageBlock, transcript.DocumentBlock, transcript.RawBlock:
		return b
	}
	a.note("misplaced-block", entry, "a %s block in a %s", transcript.BlockType(b), where)
	return nil
}

// ContextText is how a model is shown a context reference.
func ContextText(b transcript.ContextBlock) transcript.TextBlock {
	text := "[" + cmp.Or(b.Kind, "context") + " " + b.URI + "]"
	if !IsBlank(b.Abstract) {
		text += "\n" + b.Abstract
	}
	return transcript.TextBlock{Text: text}
}

// normaliseResult reduces a result to blocks that a model accepts there: text,
// images, documents, and unknown blocks. It returns block, which is b, if
// nothing changes.
func (a *assembler) normaliseResult(entry string, block transcript.Block, b transcript.ToolResultBlock) transcript.Block {
	var out []transcript.Block
	changed := false
	for i, c := range b.Content {
		shown := a.normaliseBlock(entry, inResult, c)
		if _, isContext := c.(transcript.ContextBlock); !changed && (isContext || shown == nil) {
			out, changed = slices.Clone(b.Content[:i]), true
		}
		if changed && shown != nil {
			out = append(out, shown)
		}
	}
	if !changed {
		return block
	}
	return b.WithContent(out...)
}

// normaliseCall gives a call a name and an input that providers accept, and
// reports whether it had to change them. It notes changes.
func (r *rendering) normaliseCall(b transcript.ToolCallBlock, entry string) (shown transcript.ToolCallBlock, changed bool) {
	if name := ToolName(b.Name); name != b.Name {
		r.note("bad-name", entry, "%q became %q", b.Name, name)
		b.Name, changed = name, true
	}
	if !isObject(b.Input) {
		if !jsontext.IsNull(b.Input) {
			r.note("bad-input", entry, "call %s", b.ID)
		}
		b.Input, changed = inputObject(b.Input), true
	}
	return b, changed
}

// ToolName returns the name of a tool in the characters that every provider takes:
// others than A-Z a-z 0-9 _ - become _, and 64 characters stay.
func ToolName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(name[:min(len(name), 64)], "tool")
}

func isObject(input json.RawMessage) bool {
	return jsontext.IsObject(input) && jsontext.Valid(input)
}

// inputObject turns other inputs into objects: nothing becomes an empty object,
// an object inside a string is taken out, anything else becomes the member
// "input".
func inputObject(input json.RawMessage) json.RawMessage {
	if jsontext.IsNull(input) {
		return json.RawMessage("{}")
	}
	if s, ok := jsontext.String(input); ok {
		if isObject(json.RawMessage(s)) {
			return compact(json.RawMessage(s))
		}
		if IsBlank(s) {
			return json.RawMessage("{}")
		}
	}
	o := jsontext.AppendObject(nil)
	o.Value("input", input)
	return o.End()
}

// compact returns v without white space between its tokens.
func compact(v json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	if json.Compact(&buf, v) != nil {
		return v
	}
	return buf.Bytes()
}
