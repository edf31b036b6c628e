package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// hide leaves a line out. Without a call, the reasoning of its answer is not what the
// model wrote, so it goes too.
func (a *assembler) hide(n *node) {
	a.edited = max(a.edited, n.hidden)
	a.note("hidden-entry", n.id, "")
	f, _ := n.body.(transcript.MessageLine)
	if f.Kind != transcript.TypeToolUse {
		return
	}
	if ans := a.answerOf(&f); ans != nil {
		ans.bare, ans.since = true, max(ans.since, n.hidden)
		ans.parts = slices.DeleteFunc(ans.parts, func(p part) bool { return transcript.IsReasoning(p.block) })
	}
}

// hideSummarised removes the carried items of hidden entries from a compaction, and
// returns the ord of the last hide that concerns them. Its summary stays, which is
// noted for each entry that a later line hides and that is not kept.
func (f *Fold) hideSummarised(a *assembler, c *transcript.Compaction, later, kept []int) (since int) {
	hides := f.hides()
	for _, list := range []*[]transcript.Carried{&c.Said, &c.Files, &c.Errors, &c.IDs, &c.Pins} {
		for _, i := range *list {
			since = max(since, hides[i.Entry].ord)
		}
		*list = without(*list, func(i transcript.Carried) bool { h, ok := hides[i.Entry]; return ok && !h.off })
	}
	for _, i := range later {
		h, _ := f.nodes[i].body.(transcript.Hide)
		for _, id := range h.Entries {
			if hides[id] == (hiding{ord: i}) && !slices.ContainsFunc(kept, func(n int) bool { return f.nodes[n].id == id }) {
				a.note("hidden-entry", id, "a summary may have its words")
			}
		}
	}
	return since
}
