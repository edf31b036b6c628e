package rebuild

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// InForce returns the IDs of the entries that the history is made of, in the
// order of their lines: what the last live compaction keeps, what came after it,
// and the compaction itself. Of a compaction that names no entry that it keeps it
// also returns the last one that it covers. A transcript with the batches of these
// entries and no others has the same history, if its header has a Base.
func (f *Fold) InForce() (ids []string) {
	path := f.path()
	start := 0
	for i, n := range slices.Backward(path) {
		if _, ok := f.nodes[n].body.(transcript.Compaction); !ok {
			continue
		}
		var by string
		start, by = f.boundary(path, i)
		if kept := path[min(start, i):i]; !slices.ContainsFunc(kept, func(n int) bool { return f.nodes[n].id == by }) {
			ids = append(ids, cmp.Or(by, f.nodes[n].id))
		}
		break
	}
	for _, n := range path[start:] {
		ids = append(ids, f.nodes[n].id)
	}
	return ids
}

// Since returns the IDs of the live lines that were not part of the conversation when
// any of the given entries was its last one. It leaves out compactions and clips, and
// ignores entries that were not added.
func (f *Fold) Since(entries ...string) (ids []string) {
	before := make([]bool, len(f.nodes))
	for _, id := range entries {
		tip, ok := f.tipAt(id)
		for i := tip; ok && i >= 0 && !before[i]; i = f.nodes[i].parent {
			before[i] = true
		}
	}
	for _, n := range f.path() {
		switch f.nodes[n].body.(type) {
		case transcript.Compaction, transcript.Clip:
		default:
			if !before[n] {
				ids = append(ids, f.nodes[n].id)
			}
		}
	}
	return ids
}

// ErrFewTurns says that a history has fewer turns than are to be taken back.
var ErrFewTurns = errors.New("there are fewer turns")

// BeforeTurn returns the ID of the entry that a rewind goes to in order to take
// back the last n turns. Turns that a compaction stands for count as far as their
// lines were added: the rewind undoes the compaction. The error is [ErrFewTurns],
// or names the entry that is in the way: an answer that is shown in front of the
// turn and was written behind its beginning would be taken back too.
func (f *Fold) BeforeTurn(n int) (id string, err error) {
	a := f.live()
	if n > a.started() && a.turnsBefore > 0 {
		a = newAssembler()
		f.feed(a, f.path())
	}
	if n <= 0 || n > a.started() {
		return "", ErrFewTurns
	}
	t := a.turns[len(a.turns)-n]
	first := a.items[t.first]
	for _, it := range a.items[:t.first] {
		if it.answer && it.ord > first.ord {
			return "", fmt.Errorf("the answer %s was written after the turn that begins with entry %s, which it is shown in front of: rewind to an entry instead", it.entry, first.entry)
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
