package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// clipping is a replacement and the ord of its entry. Of two for one place the last
// one holds.
type clipping struct {
	transcript.Clipping
	ord int
}

// clipped returns the content of a line with its clips applied, and the ord of
// the last line that has changed it. Only tool results, images and documents can
// be replaced.
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
