package rebuild

import (
	"errors"
	"fmt"
)

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
