package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// shownOrder returns the message lines of a part of the live path in the order
// in which they are shown: that of the file, but for answers that say what they
// were made from. Such an answer stands in front of the texts and results that
// were written while it was being made, because its request did not have them.
// It never moves past another answer. displaced says that lines stand behind the
// last answer for that reason.
func (f *Fold) shownOrder(path []int) (shown []*node, displaced bool) {
	shown = make([]*node, 0, len(path))
	end := 0 // of the last answer in shown
	for _, i := range path {
		n := f.nodes[i]
		b, ok := n.body.(transcript.Fragment)
		if !ok {
			continue
		}
		if b.Role != transcript.RoleAssistant {
			shown = append(shown, n)
			continue
		}
		at := len(shown)
		switch {
		case n.after != noAfter:
			for at > end && shown[at-1].ord > n.after {
				at--
			}
		case displaced && n.continues(shown[end-1]):
			at = end
		}
		displaced = at < len(shown)
		shown = slices.Insert(shown, at, n)
		end = at + 1
	}
	return shown, displaced
}

// continues reports whether n is a later line of the answer that last is a line
// of.
func (n *node) continues(last *node) bool {
	own, _ := n.body.(transcript.Fragment)
	other, _ := last.body.(transcript.Fragment)
	return n.batch == last.batch || own.Of != "" && (own.Of == last.id || own.Of == other.Of)
}

// displaces reports whether a line is not shown behind all lines that the
// assembler was given.
func (a *assembler) displaces(n *node) bool {
	b, _ := n.body.(transcript.Fragment)
	if b.Role != transcript.RoleAssistant {
		return false
	}
	return a.displaced || n.after != noAfter && a.lastUser > n.after
}
