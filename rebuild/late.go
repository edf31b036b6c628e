package rebuild

import (
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/transcript"
)

// tooLate reports whether a result comes too late to be shown right after its call.
// That is so if an answer is shown between the two, and its request held the call
// without the result.
func (a *assembler) tooLate(c *call, result *node) bool {
	for _, it := range slices.Backward(a.items) {
		if it == c.item {
			return false
		}
		if it.answer && it.after >= c.node.ord && it.after < result.ord && it.shows() {
			return true
		}
	}
	return false
}

// addLate shows a result as a user text in the place where it came. c is nil if no call
// was found; if the call comes later, the text goes.
func (a *assembler) addLate(r *result, c *call) {
	b, _ := r.block.(transcript.ToolResultBlock)
	what, name := "result", ""
	if b.IsError {
		what = "error"
	}
	if c != nil {
		c.late = true
		name = " (" + neutral.ToolName(c.recorded().Name) + ")"
	}
	text := quote.Rest(fmt.Sprintf(lateResult, what, r.callID+name))
	if said := b.Text(); said != "" {
		text += "\n" + quote.Lines(said)
	}
	it := a.newItem(r.from.node, 1+len(b.Content))
	it.aside, it.since, r.text = true, r.since, it
	it.parts = append(it.parts, part{transcript.TextBlock{Text: text}, r.from})
	for _, inner := range b.Content {
		switch inner.(type) {
		case transcript.TextBlock:
		case transcript.ImageBlock, transcript.DocumentBlock:
			it.parts = append(it.parts, part{inner, r.from})
		default:
			a.report().note("misplaced-block", r.from.node.id, "a %s block in a late tool result", transcript.BlockType(inner))
		}
	}
	a.items = append(a.items, it)
	if c != nil {
		a.report().note("late-result", r.from.node.id, "call %s", r.callID)
	}
}
