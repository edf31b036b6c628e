package rebuild

import (
	"errors"
	"fmt"
)

// ErrFewTurns reports that a history has fewer turns than the caller wants to
// take back.
var ErrFewTurns = errors.New("there are fewer turns")

// BeforeTurn returns the entry ID to which a rewind must go to take back the last
// n turns. Summarised turns count if their lines were added: the rewind undoes
// the compaction. The error is [ErrFewTurns], or names the entry that prevents
// it: an answer that is shown before the turn but was written after its beginning
// would be taken back as well.
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
