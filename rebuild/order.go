package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// feed passes the lines of a part of the live path to the assembler in display order.
// That is file order, except for answers that recorded their request. Such an answer
// precedes texts and results written while it was made, because its request lacked
// them. It never moves past another answer.
//
// A system prompt is shown after all texts and results up to the next answer. Of the
// prompts before the compaction, or before the first message, the last one is the
// prompt of the history.
func (a *assembler) feed(path []*node) {
	shown := make([]*node, 0, len(path))
	end := 0 // the index after the last answer in shown
	begun := a.summary != nil && len(path) > 0 && path[0].ord <= a.compacted
	for _, n := range path {
		at := len(shown)
		body := n.body
		if n.hidden > 0 {
			body = transcript.Hide{}
		}
		switch b := body.(type) {
		case transcript.System, transcript.Tools:
			if n.ord < a.compacted || !begun {
				*a.prompts.of(b) = b
				continue
			}
		case transcript.Dispatch, transcript.Decision, transcript.Interrupt, transcript.Hide:
		case transcript.MessageLine:
			begun = true
			if b.Role != transcript.RoleAssistant {
				for ; at > end; at-- {
					if promptText(shown[at-1].body) == "" {
						break
					}
				}
				break
			}
			if n.after != noAfter {
				at = end + splitAt(shown[end:], n.after)
			} else if a.displaced && n.continues(shown[end-1]) {
				at = end
			}
			a.displaced, end = at < len(shown), at+1
		default:
			continue
		}
		shown = slices.Insert(shown, at, n)
	}
	for _, n := range shown {
		a.add(n)
	}
}

// splitAt moves the lines up to ord before the others, keeps the order within both
// parts, and returns the number of lines up to ord.
func splitAt(lines []*node, ord int) int {
	behind := slices.DeleteFunc(slices.Clone(lines), func(n *node) bool { return n.ord <= ord })
	n := len(slices.DeleteFunc(lines, func(n *node) bool { return n.ord > ord }))
	copy(lines[n:], behind)
	return n
}

// continues reports whether n is a later line of the answer to which last belongs.
func (n *node) continues(last *node) bool {
	own, _ := n.body.(transcript.MessageLine)
	other, _ := last.body.(transcript.MessageLine)
	return n.batch == last.batch || own.Of != "" && (own.Of == last.id || own.Of == other.Of)
}

// displaces reports whether a line must be shown before a line that was already fed.
func (a *assembler) displaces(n *node) bool {
	switch b := n.body.(type) {
	case transcript.System, transcript.Tools:
		return len(a.items) == 0 // it is the first one
	case transcript.MessageLine:
		if b.Role == transcript.RoleAssistant {
			return a.displaced || n.after != noAfter && a.lastUser > n.after
		}
		return a.prompted
	}
	return false
}
