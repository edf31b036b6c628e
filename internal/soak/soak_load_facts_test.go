package soak_test

import (
	"fmt"
	"strings"
)

// soakFact is a fact in a [soakTurn] that a test searches for later.
type soakFact struct {
	Kind  factKind
	Place factPlace
	// Text must be found letter by letter. It is in one turn only.
	Text string
	// Turn is the number of the turn.
	Turn int
}

// factKind is the kind of a [soakFact].
type factKind string

// The kinds of facts.
const (
	factName     factKind = "identifier" // of an issue, a commit, a release, a URL ...
	factPath     factKind = "path"
	factNumber   factKind = "number" // of six digits or more
	factDecision factKind = "decision"
)

// isIdentifier reports whether the fact is a name, a path or a number, which is
// either there letter by letter or lost.
func (f soakFact) isIdentifier() bool { return f.Kind != factDecision }

// factPlace is the place of a [soakFact].
type factPlace string

// The places of facts.
const (
	ofUser      factPlace = "user"      // in the user's words
	ofAssistant factPlace = "assistant" // in the words of the model
	inInput     factPlace = "input"     // in the input of a call that reads
	inChange    factPlace = "change"    // in the input of a call that writes
	inError     factPlace = "error"     // in a result that is an error
	inResult    factPlace = "result"    // in any other result
)

// mark chooses the kind of an identifier.
func (t *turnMaker) mark() factKind {
	return []factKind{factName, factName, factPath, factNumber}[t.IntN(4)]
}

// plant makes a fact and returns a sentence with it.
func (t *turnMaker) plant(kind factKind, place factPlace) string {
	f := t.fact(kind, place)
	switch {
	case kind == factDecision:
		return "We decided: " + f.Text + "."
	case kind == factNumber:
		return "The number of the order is " + f.Text + "."
	case place == inError:
		return "error: cannot go on without " + f.Text
	}
	return t.words.text(t.Rand, 1) + " " + f.Text + "."
}

// fact makes a fact. The number of the turn is in it, so that it is in no other.
func (t *turnMaker) fact(kind factKind, place factPlace) soakFact {
	t.planted++
	n := t.N*100 + t.planted
	word := func() string { return english.words[t.IntN(len(english.words))] }
	f := soakFact{Kind: kind, Place: place, Turn: t.N}
	switch kind {
	case factPath:
		f.Text = []string{
			fmt.Sprintf("internal/%s/%s_%d.go", word(), word(), n),
			fmt.Sprintf("/srv/%s/%s-%d/config.yaml", word(), word(), n),
			fmt.Sprintf("docs/%s-%d.md", word(), n),
		}[t.IntN(3)]
	case factNumber:
		f.Text = fmt.Sprint(int64(7_000_000_000) + int64(n))
	case factDecision:
		f.Text = fmt.Sprintf("the %s %s is kept with the %s until the %s of part %d.%d", word(), word(), word(), word(), t.N, t.planted)
	default:
		f.Text = []string{
			fmt.Sprintf("%s-%d", strings.ToUpper(word())[:3], 1000+n),
			fmt.Sprintf("https://%s.example/%s/%d", word(), word(), n),
			fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", t.Uint32(), t.IntN(1<<16), t.IntN(1<<12), t.IntN(1<<12), n),
			fmt.Sprintf("%s@%07x%d", word(), t.Uint32()>>4, n),
			fmt.Sprintf("v%d.%d.%d", t.IntN(9)+1, t.IntN(90)+10, n),
		}[t.IntN(5)]
	}
	t.Facts = append(t.Facts, f)
	return f
}
