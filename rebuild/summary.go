package rebuild

import (
	"slices"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
)

// SummaryForm is the form in which the summary of a compaction is shown to a model.
type SummaryForm int

// The forms of a summary.
const (
	SummaryUser   SummaryForm = iota // a user message before the kept messages
	SummaryPair                      // the same, followed by an assistant message that accepts it
	SummarySystem                    // the system prefix of the history
)

// summarise puts the summary of the compaction at marker first, and returns the index
// in path of the first kept entry.
func (a *assembler) summarise(t *trail, path []*node, marker int, form SummaryForm) (start int) {
	e := path[marker]
	c, _ := e.body.(transcript.Compaction)
	start, by := t.boundary(path, marker)
	if by == "" {
		a.report().note("unresolved-boundary", e.id, "neither firstKeptEntryId %q nor coversTo %q is a live entry before it", c.FirstKept, c.CoversTo)
	}
	changed := a.hideCarried(&c, t.hides(), path[marker:], path[start:])
	a.summary, a.turnsBefore, a.compacted = &c, c.TurnsBefore, e.ord
	if c.TurnsBefore == 0 && start > 0 {
		before := newAssembler()
		before.feed(path[:start])
		a.turnsBefore = before.started()
	}
	from := source{node: &node{id: e.id}} // without a batch
	say := func(answer bool, texts ...string) {
		it := a.newItem(from.node, len(texts))
		it.answer, it.since = answer, changed
		for _, text := range texts {
			if text != "" {
				it.parts = append(it.parts, part{transcript.TextBlock{Text: text}, from})
			}
		}
		it.plain = len(it.parts) == 1
		a.prelude = append(a.prelude, it)
	}
	text, carried := "", CarriedText(c)
	if c.Summary = words.Printable(c.Summary); !neutral.IsBlank(c.Summary) {
		text = neutral.SummaryHeading + "\n" + c.Summary
	}
	if form == SummarySystem {
		a.system, text = text, ""
	}
	say(false, text, carried)
	if form == SummaryPair && text != "" {
		say(true, summaryReply)
	}
	return start
}

// hideCarried removes the carried items of hidden entries from a compaction, and
// returns the ord of the last hide of such an entry. The summary stays. hideCarried
// notes this for each entry that is hidden after the compaction and that is not kept.
func (a *assembler) hideCarried(c *transcript.Compaction, hides map[string]hiding, later, kept []*node) (since int) {
	*c, _ = c.WithoutCarried(func(entry string) bool {
		h, ok := hides[entry]
		since = max(since, h.ord)
		return ok && !h.off
	})
	for _, n := range later {
		h, _ := n.body.(transcript.Hide)
		for _, id := range h.Entries {
			if hides[id] == (hiding{ord: n.ord}) && !slices.ContainsFunc(kept, func(k *node) bool { return k.id == id }) {
				a.report().note("hidden-entry", id, "a summary may have its words")
			}
		}
	}
	return since
}
