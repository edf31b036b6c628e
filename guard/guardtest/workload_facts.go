package guardtest

import (
	"fmt"
	"strings"
)

// Fact is something in a [Turn] that may be asked for later.
type Fact struct {
	Kind  FactKind
	Place Place
	// Text is what must be found letter by letter. It is in one turn only.
	Text string
	// Turn is the number of the turn.
	Turn int
}

// FactKind says what a [Fact] is.
type FactKind string

// The kinds of facts.
const (
	FactName     FactKind = "identifier" // of an issue, a commit, a release, a URL ...
	FactPath     FactKind = "path"
	FactNumber   FactKind = "number" // of six digits or more
	FactDecision FactKind = "decision"
)

// IsIdentifier reports whether the fact is a name, a path or a number, which is
// either there letter by letter or lost.
func (f Fact) IsIdentifier() bool { return f.Kind != FactDecision }

// Place says where a [Fact] was.
type Place string

// The places of facts.
const (
	OfUser      Place = "user"      // in the user's words
	OfAssistant Place = "assistant" // in the words of the model
	InInput     Place = "input"     // in the input of a call that reads
	InChange    Place = "change"    // in the input of a call that writes
	InError     Place = "error"     // in a result that is an error
	InResult    Place = "result"    // in any other result
)

// mark chooses the kind of an identifier.
func (t *turn) mark() FactKind {
	return []FactKind{FactName, FactName, FactPath, FactNumber}[t.IntN(4)]
}

// plant makes a fact and returns a sentence with it.
func (t *turn) plant(kind FactKind, place Place) string {
	f := t.fact(kind, place)
	switch {
	case kind == FactDecision:
		return "We decided: " + f.Text + "."
	case kind == FactNumber:
		return "The number of the order is " + f.Text + "."
	case place == InError:
		return "error: cannot go on without " + f.Text
	}
	return t.words.text(t.Rand, 1) + " " + f.Text + "."
}

// fact makes a fact. The number of the turn is in it, so that it is in no other.
func (t *turn) fact(kind FactKind, place Place) Fact {
	t.planted++
	n := t.N*100 + t.planted
	word := func() string { return english.words[t.IntN(len(english.words))] }
	f := Fact{Kind: kind, Place: place, Turn: t.N}
	switch kind {
	case FactPath:
		f.Text = []string{
			fmt.Sprintf("internal/%s/%s_%d.go", word(), word(), n),
			fmt.Sprintf("/srv/%s/%s-%d/config.yaml", word(), word(), n),
			fmt.Sprintf("docs/%s-%d.md", word(), n),
		}[t.IntN(3)]
	case FactNumber:
		f.Text = fmt.Sprint(7_000_000_000 + n)
	case FactDecision:
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
