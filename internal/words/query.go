package words

import (
	"context"
	"errors"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// A Query is a set of words and phrases, or a regular expression. It is immutable, so
// several goroutines may use it.
type Query struct {
	items []*needle
	re    *Pattern
	lit   *needle // a part of every match of re; nil if unknown
	some  bool    // a text needs only one of the items
	odd   oddity  // of all items, if some is set
}

// ErrEmpty reports a query without a word.
var ErrEmpty = errors.New("there is no word in it")

// Parse parses a query. Its items are words, parts of identifiers, beginnings of words with
// a trailing *, and phrases in double quotes. A text fits if it contains all items. If
// some is set, a text needs only one item, and a text in a script without spaces is split
// into pairs of characters.
func Parse(text string, some bool) (*Query, error) {
	q := &Query{some: some}
	for i, part := range strings.Split(Fold(text), `"`) {
		if i%2 == 1 {
			q.phrase(part)
			continue
		}
		q.words(part)
	}
	if len(q.items) == 0 {
		return nil, ErrEmpty
	}
	return q, nil
}

// phrase adds a phrase, which must begin and end at boundaries.
func (q *Query) phrase(text string) {
	text = strings.TrimSpace(text)
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0 {
		return
	}
	q.add(newNeedle(text, true, true))
}

func (q *Query) words(text string) {
	for field := range strings.FieldsSeq(text) {
		pieces := split(field)
		for i, piece := range pieces {
			whole := i < len(pieces)-1 || !strings.HasSuffix(field, "*")
			if !isRun(piece) {
				q.add(newNeedle(piece, true, whole))
				continue
			}
			list := []string{piece}
			if q.some {
				list = pairs(piece)
			}
			for _, pair := range list {
				q.add(newNeedle(pair, false, false))
			}
		}
	}
}

func (q *Query) add(n *needle) {
	for _, i := range q.items {
		if i.text == n.text && i.begins == n.begins && i.ends == n.ends {
			return
		}
	}
	q.items = append(q.items, n)
	if q.some {
		n.fold.addOdd(&q.odd, n.key)
	}
}

// Compile makes a query of a regular expression, see [NewPattern].
func Compile(expr string) (*Query, error) {
	re, err := NewPattern(expr)
	if err != nil {
		return nil, err
	}
	q := &Query{re: re}
	if parsed, err := syntax.Parse(expr, syntax.Perl); err == nil {
		if s := literal(parsed.Simplify()); s != "" {
			q.lit = newNeedle(s, false, false)
		}
	}
	return q, nil
}

// literal returns a text that every match of an expression contains, or "" if it finds
// none. It prefers long texts.
func literal(re *syntax.Regexp) (best string) {
	switch re.Op {
	case syntax.OpLiteral:
		for s := range strings.FieldsSeq(string(re.Rune)) { // white space in a needle matches any white space
			if len(s) > len(best) {
				best = s
			}
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if s := literal(sub); len(s) > len(best) {
				best = s
			}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literal(re.Sub[0])
	default:
	}
	return best
}

// MaxItems is the largest number of items in the query of a search. It limits the work.
const MaxItems = 64

// Items returns the number of words and phrases in the query, or 1 for a regular
// expression.
func (q *Query) Items() int { return max(len(q.items), 1) }

// MayFit reports whether a string in lines of JSON may fit the query. It never misses
// fitting lines, whether one line fits alone or several together.
func (q *Query) MayFit(raw []byte) bool {
	if q.re != nil {
		return q.lit == nil || q.lit.mayHave(raw) || hidesLetters(raw)
	}
	if q.some {
		inBytes := func(n *needle) bool { return n.inBytes(raw) }
		return slices.ContainsFunc(q.items, inBytes) || isOdd(&q.odd, raw) || hidesLetters(raw)
	}
	lacks := func(n *needle) bool { return !n.mayHave(raw) }
	return !slices.ContainsFunc(q.items, lacks) || hidesLetters(raw)
}

// MayHave adds one to the count of every item that a line of JSON may contain.
func (q *Query) MayHave(line []byte, counts []int64) {
	for i, n := range q.items {
		if n.mayHave(line) {
			counts[i]++
		}
	}
}

// Match is a place in one of several texts.
type Match struct{ Text, Start, End int }

// Fit counts the matches of a query in texts.
type Fit struct {
	Counts []int   // the count of each item
	First  []Match // the first match of each item; valid if its count is not 0
}

// Look looks for the query in texts that belong together, and reports whether they fit the
// query. It counts each item up to most. If most is 0, Look stops as soon as the answer is
// certain. If ctx is done, the result is meaningless, see [Pattern.Find].
func (q *Query) Look(ctx context.Context, texts []string, most int) (f Fit, fits bool) {
	if q.re != nil {
		for i, text := range texts {
			if at := q.re.Find(ctx, text); at != nil {
				return Fit{Counts: []int{1}, First: []Match{{i, at[0], at[1]}}}, true
			}
		}
		return f, false
	}
	f = Fit{Counts: make([]int, len(q.items)), First: make([]Match, len(q.items))}
	found := 0
	for i, n := range q.items {
		f.Counts[i], f.First[i] = n.count(texts, max(most, 1))
		if f.Counts[i] > 0 {
			found++
		}
		if most == 0 && q.some == (f.Counts[i] > 0) {
			return f, q.some
		}
	}
	if q.some {
		return f, found > 0
	}
	return f, found == len(q.items)
}

// count returns the number of times that the needle is in texts, up to most, and its first
// place.
func (n *needle) count(texts []string, most int) (times int, first Match) {
	for i, text := range texts {
		if times == most {
			break
		}
		slow := n.isSlow(text)
		for at := 0; times < most; {
			start, end := n.in(text, at, slow)
			if start < 0 {
				break
			}
			if times++; times == 1 {
				first = Match{i, start, end}
			}
			at = end
		}
	}
	return times, first
}
