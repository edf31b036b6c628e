package rebuild

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// InForce returns the IDs of the entries in the history, in the order of their
// lines: entries that the last live compaction keeps, later ones, and the
// compaction itself. If the compaction names no kept entry it also returns the
// last covered one. A transcript with only the batches of these entries gives the
// same history, if its header has a Base.
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
// any of the given entries was its last one. It leaves out compactions, clips and hides
// with the hidden lines, and ignores entries that were not added.
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
		case transcript.Compaction, transcript.Clip, transcript.Hide:
		default:
			if !before[n] && f.nodes[n].hidden == 0 {
				ids = append(ids, f.nodes[n].id)
			}
		}
	}
	return ids
}
