package rebuild

import (
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/transcript"
)

// The places of a block.
const (
	inUser   = "user message"
	inAnswer = "assistant message"
	inResult = "tool result"
)

// normaliseBlock returns a block in a form that its place allows, or nil.
func normaliseBlock(rep *Report, entry, where string, b transcript.Block) transcript.Block {
	switch c := b.(type) {
	case transcript.TextBlock:
		if !neutral.IsBlank(c.Text) {
			return b
		}
		if where != inResult {
			rep.note("blank-text", entry, "")
		}
		return nil
	case transcript.ContextBlock:
		return neutral.ContextText(c)
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

// normaliseResult reduces a result to the blocks that a model accepts in it: text,
// images, documents, and unknown blocks. If nothing changes, it returns block, which
// holds b.
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

// normaliseCall gives a call a name and an input that providers accept. It notes
// changes, and reports whether there were any.
func normaliseCall(rep *Report, b transcript.ToolCallBlock, entry string) (shown transcript.ToolCallBlock, changed bool) {
	if name := neutral.ToolName(b.Name); name != b.Name {
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

// clipping is a replacement and the ord of its entry. The last of several for one place
// applies.
type clipping struct {
	transcript.Clipping
	ord int
}

// clipped returns the content of a line with its clips applied, and the ord of the last
// line that changed it. Only tool results, images and documents can be replaced.
func clipped(rep *Report, n *node, f *transcript.MessageLine, clips []clipping) (content []transcript.Block, since int) {
	content, since = slices.Clone(f.Content), n.ord
	for _, c := range clips {
		if applyClip(f.Kind, content, c.Clipping) {
			since = max(since, c.ord)
		} else {
			rep.note("unresolved-clip", n.id, "no tool result, image or document there")
		}
	}
	return content, since
}

func applyClip(kind string, content []transcript.Block, c transcript.Clipping) bool {
	text := transcript.TextBlock{Text: c.Content}
	if kind == transcript.TypeToolResult {
		r, ok := content[0].(transcript.ToolResultBlock)
		inner := []transcript.Block{text}
		if c.Block != nil {
			if *c.Block < 0 || *c.Block >= len(r.Content) {
				return false
			}
			inner = slices.Clone(r.Content)
			inner[*c.Block] = text
		}
		if ok {
			content[0] = r.WithContent(inner...)
		}
		return ok
	}
	if c.Block == nil || *c.Block < 0 || *c.Block >= len(content) {
		return false
	}
	switch b := content[*c.Block].(type) {
	case transcript.ImageBlock, transcript.DocumentBlock:
		content[*c.Block] = text
	case transcript.ToolResultBlock:
		content[*c.Block] = b.WithContent(text)
	default:
		return false
	}
	return true
}
