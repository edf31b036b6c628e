package rebuild

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// InForce returns the IDs of the entries in the history, in the order of their lines:
// the entries that the last live compaction keeps, later ones, and the compaction
// itself. If the compaction names no kept entry, InForce also returns the last covered
// one. A transcript with only the batches of these entries gives the same history, if
// its header names a Base.
func (f *Fold) InForce() (ids []string) {
	path := f.path()
	start := 0
	for i, n := range slices.Backward(path) {
		if _, ok := n.body.(transcript.Compaction); !ok {
			continue
		}
		var by string
		start, by = f.boundary(path, i)
		if kept := path[min(start, i):i]; !slices.ContainsFunc(kept, func(n *node) bool { return n.id == by }) {
			ids = append(ids, cmp.Or(by, n.id))
		}
		break
	}
	for _, n := range path[start:] {
		ids = append(ids, n.id)
	}
	return ids
}

// Since returns the IDs of the live lines that were not in the conversation when any of
// the given entries was its last line. It leaves out compactions, clips, hides and
// hidden lines. It ignores given entries that were not added.
func (f *Fold) Since(entries ...string) (ids []string) {
	before := make([]bool, len(f.nodes))
	for _, id := range entries {
		tip, ok := f.tipAt(id)
		for i := tip; ok && i >= 0 && !before[i]; i = f.nodes[i].parent {
			before[i] = true
		}
	}
	for _, n := range f.path() {
		switch n.body.(type) {
		case transcript.Compaction, transcript.Clip, transcript.Hide:
		default:
			if !before[n.ord] && n.hidden == 0 {
				ids = append(ids, n.id)
			}
		}
	}
	return ids
}

// ErrFewTurns reports that a history has fewer turns than the caller wants to take
// back.
var ErrFewTurns = errors.New("the history has fewer turns")

// BeforeTurn returns the entry ID to which a rewind must go to take back the last n
// turns. Summarised turns count if their lines were added; the rewind then undoes the
// compaction. The error is [ErrFewTurns], or names an answer that prevents the rewind.
// Such an answer is shown before the turn but was written after its beginning, so a
// rewind would take it back as well.
func (f *Fold) BeforeTurn(n int) (id string, err error) {
	a := f.live()
	if n > a.started() && a.turnsBefore > 0 {
		a = newAssembler()
		a.feed(f.path())
	}
	if n <= 0 || n > a.started() {
		return "", ErrFewTurns
	}
	t := a.turns[len(a.turns)-n]
	first := a.items[t.first]
	for _, it := range a.items[:t.first] {
		if it.answer && it.ord > first.ord {
			return "", fmt.Errorf("the answer %s is shown before the turn that begins with entry %s but was written after it: rewind to an entry instead", it.entry, first.entry)
		}
	}
	before := f.nodes[first.ord].parent
	for before >= 0 && f.nodes[before].batch == f.nodes[first.ord].batch {
		before = f.nodes[before].parent
	}
	switch {
	case before >= 0:
		return f.nodes[before].id, nil
	case f.first != "":
		return f.first, nil
	}
	return "", ErrFewTurns
}
