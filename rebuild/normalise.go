package rebuild

import (
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Where a block can be.
const (
	inUser   = "user message"
	inAnswer = "assistant message"
	inResult = "tool result"
)

// normaliseBlock returns a block as it can be there, nil if it cannot.
func normaliseBlock(rep *Report, entry, where string, b transcript.Block) transcript.Block {
	switch c := b.(type) {
	case transcript.TextBlock:
		if !IsBlank(c.Text) {
			return b
		}
		if where != inResult {
			rep.note("blank-text", entry, "")
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
	rep.note("misplaced-block", entry, "a %s block in a %s", transcript.BlockType(b), where)
	return nil
}

// normaliseResult reduces a result to blocks that a model accepts there: text,
// images, documents, and unknown blocks. It returns block, which is b, if
// nothing changes.
func normaliseResult(rep *Report, entry string, block transcript.Block, b transcript.ToolResultBlock) transcript.Block {
	var out []transcript.Block
	changed := false
	for i, c := range b.Content {
		shown := normaliseBlock(rep, entry, inResult, c)
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
func normaliseCall(rep *Report, b transcript.ToolCallBlock, entry string) (shown transcript.ToolCallBlock, changed bool) {
	if name := ToolName(b.Name); name != b.Name {
		rep.note("bad-name", entry, "%q became %q", b.Name, name)
		b.Name, changed = name, true
	}
	if !isObject(b.Input) {
		if !jsontext.IsNull(b.Input) {
			rep.note("bad-input", entry, "call %s", b.ID)
		}
		b.Input, changed = inputObject(b.Input), true
	}
	return b, changed
}
