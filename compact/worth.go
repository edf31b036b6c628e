package compact

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// The worth of a unit is a sum over its distinct words, divided by its tokens: the
// cube of ln(1 + N/n) for a word in n of all N units. So words of every turn are
// worth little, and a name or number of a single sentence much, in any language and
// without a list of words. The result depends on no figure alone; TestUserWords
// measures it, and docs/BENCHMARKS.md has the results.
const (
	unitCost    = 3    // tokens that a unit costs in addition to its own
	fullText    = 60   // tokens; in a longer text worth is multiplied by the root of this by its size
	oddLine     = .7   // the least such factor, for a line unlike both neighbours
	unlike      = .25  // the most of its words that such a line shares with one
	question    = .5   // times, for a unit that ends with a question mark
	saidAgain   = .1   // times, for a unit whose words a newer text has
	answered    = 2.   // times, for a short answer with its question
	oldest      = 2.   // times, for the units of the oldest text
	fromBehind  = .8   // of the worth of its neighbours, for a piece of a sentence,
	fromBefore  = .7   // because pieces go together
	mostOfReply = 4000 // runes of an answer whose words count
)

// rated is a text with its units.
type rated struct {
	transcript.Carried
	size  int // tokens, including those left out earlier
	units []unit
}

// rate divides texts, the oldest first, and gives each unit its worth. Words in
// answers count as less rare. Sizes are estimates, scaled by the count of all
// texts together.
func rate(items []transcript.Carried, answers []string, counter tokens.Counter) []rated {
	texts := make([]rated, len(items))
	var all strings.Builder
	for _, item := range items {
		all.WriteString(item.Text + "\n")
	}
	ratio := float64(countText(counter, all.String())) / float64(size(all.String()))
	with := map[string]int{} // word -> units that have it
	n := 0
	count := func(units []unit) {
		n += len(units)
		for _, u := range units {
			for _, term := range u.terms {
				with[term]++
			}
		}
	}
	for i, item := range items {
		texts[i] = rated{Carried: item, units: divide(item.Text)}
		if item.To != "" { // one unit, with the words of the question
			terms := termsOf(item.To + " " + item.Text)
			texts[i].units = []unit{{to: len(item.Text), kind: aLine, size: size(item.To) + size(item.Text), terms: terms}}
		}
		for k := range texts[i].units {
			u := &texts[i].units[k]
			u.size = int(math.Ceil(float64(u.size)*ratio - .5))
			texts[i].size += u.size + u.gone/4
		}
		count(texts[i].units)
	}
	for _, answer := range answers {
		count(divide(firstRunes(answer, mostOfReply)))
	}
	known := map[string]bool{} // the words of each unit of newer texts
	for i, t := range slices.Backward(texts) {
		t.rate(with, n)
		times := 1.
		if i == 0 {
			times = oldest
		}
		own := make([]string, len(t.units))
		for k := range t.units {
			u := &t.units[k]
			own[k] = strings.Join(u.terms, " ")
			if known[own[k]] {
				u.worth *= saidAgain
			}
			u.worth *= times
			if t.To != "" {
				u.worth *= answered
			}
		}
		for _, key := range own {
			known[key] = true
		}
	}
	return texts
}

// rate gives the units of one text their worth. with counts the units that
// contain a word, of n units in all.
func (t rated) rate(with map[string]int, n int) {
	long := min(math.Sqrt(fullText/float64(max(t.size, 1))), 1)
	rare := func(term string) float64 { return math.Log1p(float64(n) / float64(with[term])) }
	for i := range t.units {
		u := &t.units[i]
		for _, term := range u.terms {
			r := rare(term)
			u.worth += r * r * r
		}
		u.worth /= float64(u.size + unitCost)
		switch {
		case i == 0 || i == len(t.units)-1: // the edges of a paste show its purpose
		case u.kind == aLine && !alike(*u, t.units[i-1], rare) && !alike(*u, t.units[i+1], rare):
			u.worth *= max(long, oddLine)
		default:
			u.worth *= long
		}
		if last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(t.Text[u.from:u.to], unicode.IsSpace)); strings.ContainsRune("?\uff1f؟՞⸮", last) {
			u.worth *= question
		}
	}
	for i := range t.units { // left to right, then back
		if u := &t.units[i]; u.kind == aPiece {
			u.worth = max(u.worth, fromBefore*t.units[i-1].worth)
		}
	}
	for i := len(t.units) - 2; i >= 0; i-- {
		if t.units[i+1].kind == aPiece {
			t.units[i].worth = max(t.units[i].worth, fromBehind*t.units[i+1].worth)
		}
	}
}

// alike reports whether a shares many words with b, weighted by their rarity.
func alike(a, b unit, rare func(string) float64) bool {
	same, all := 0., 0.
	for _, term := range a.terms {
		r := rare(term)
		all += r
		if _, ok := slices.BinarySearch(b.terms, term); ok {
			same += r
		}
	}
	return same > unlike*all
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

const (
	mostOfText = 300 // tokens of one reduced text,
	partOfText = 32  // or all tokens divided by this, if more
	mostOpen   = 800 // tokens of one text of the unfinished turn, or a quarter of all
	itemCost   = 3   // tokens of a text on top of its units
	noteCost   = 40  // tokens of a note that names an entry
	leadPart   = 16  // all tokens by this are for the first units of long texts
)

// lead gives the first units of long texts the greatest worth, the newest first, up to
// most tokens together. The note after such a unit names the entry of a paste for the
// reading tools.
func lead(texts []rated, most int) {
	for _, t := range slices.Backward(texts) {
		at := slices.IndexFunc(t.units, func(u unit) bool { return u.kind != aNote })
		if t.size <= mostOfText || at < 0 {
			continue
		}
		if most -= t.units[at].size + noteCost; most < 0 {
			return
		}
		t.units[at].worth = math.Inf(1)
	}
}

// newestWhole returns the newest texts that fit into most tokens together, the best
// units of the next text, and the tokens that these take. It reduces a text of more
// than half of most, and of more than mostOpen: a paste is there for one turn, and the
// older texts that it displaces are lost for all.
func newestWhole(texts []rated, most int) (list []transcript.Carried, used int) {
	for _, t := range slices.Backward(texts) {
		part, n := choose([]rated{t}, true)(min(most-used, max(most/2, mostOpen)))
		if list, used = append(list, part...), used+n; n == 0 {
			break
		}
	}
	slices.Reverse(list)
	return list, used
}

// choose returns a function that reduces texts to the units of greatest worth that fit into
// most tokens together, and returns the tokens they take. A further call adds units. A text
// without such a unit is dropped. Texts keep their order. Unless whole is set, each gets at
// most a share.
func choose(texts []rated, whole bool) func(most int) (list []transcript.Carried, used int) {
	type place struct{ text, unit int }
	var order []place
	used, taken, chosen := 0, make([]int, len(texts)), make([][]bool, len(texts))
	for i, t := range texts {
		chosen[i] = make([]bool, len(t.units))
		for k, u := range t.units {
			if u.kind != aNote {
				order = append(order, place{i, k})
			}
		}
	}
	slices.SortStableFunc(order, func(a, b place) int { // of equals, the newer first
		return cmp.Or(cmp.Compare(texts[b.text].units[b.unit].worth, texts[a.text].units[a.unit].worth), b.text-a.text)
	})
	return func(most int) (list []transcript.Carried, _ int) {
		share := max(mostOfText, most/partOfText)
		for _, at := range order {
			cost := texts[at.text].units[at.unit].size
			if taken[at.text] == 0 {
				cost += itemCost
			}
			if chosen[at.text][at.unit] || used+cost > most || !whole && taken[at.text]+cost > share {
				continue
			}
			chosen[at.text][at.unit] = true
			taken[at.text] += cost
			used += cost
		}
		for i, t := range texts {
			if taken[i] > 0 {
				t.Text = reduced(t.Text, t.Entry, t.units, chosen[i])
				list = append(list, t.Carried)
			}
		}
		return list, used
	}
}
