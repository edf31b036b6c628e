package rebuild

import (
	"errors"
	"fmt"
	"slices"
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
	if n > a.started && a.turnsBefore > 0 {
		a = newAssembler()
		f.feed(a, f.path())
	}
	for _, t := range slices.Backward(a.turns) {
		if n <= 0 {
			break
		}
		if !t.started {
			continue
		}
		if n--; n > 0 {
			continue
		}
		first := a.items[t.first]
		for _, it := range a.items[:t.first] {
			if it.answer && it.ord > first.ord {
				return "", fmt.Errorf("the answer %s was written after the turn that begins with entry %s, which it is shown in front of: rewind to an entry instead", it.entry, first.entry)
			}
		}
		if id, ok := f.before(first.entry); ok {
			return id, nil
		}
	}
	return "", ErrFewTurns
}

// before returns the entry that ends the batch before that of a message line.
func (f *Fold) before(id string) (string, bool) {
	for i := f.tip; i >= 0; i = f.nodes[i].parent {
		if f.nodes[i].id != id {
			continue
		}
		p := f.nodes[i].parent
		for p >= 0 && f.nodes[p].batch == f.nodes[i].batch {
			p = f.nodes[p].parent
		}
		if p >= 0 {
			return f.nodes[p].id, true
		}
		return f.first, f.first != ""
	}
	return "", false
}
