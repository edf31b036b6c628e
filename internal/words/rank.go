package words

import (
	"math"
	"strings"
	"unicode/utf8"
)

// MostOnce is the largest count of a word in a text: the argument most of [Query.Look] for
// ranked texts.
const MostOnce = 12

// The usual parameters of BM25.
const (
	rankK = 1.2
	rankB = .75
)

// A Ranking scores texts for a query by BM25. It counts all texts first: a word in fewer
// texts is worth more.
type Ranking struct {
	Texts, Bytes int64
	With         []int64 // for each item of the query, the number of texts that contain it
}

// Add counts a text of size bytes.
func (r *Ranking) Add(f Fit, size int) {
	r.Texts, r.Bytes = r.Texts+1, r.Bytes+int64(size)
	for i, n := range f.Counts {
		if n > 0 {
			r.With[i]++
		}
	}
}

// Score returns the score of a text of size bytes; more is better.
func (r *Ranking) Score(f Fit, size int) (score float64) {
	mean := float64(r.Bytes) / float64(max(r.Texts, 1))
	long := rankK * (1 - rankB + rankB*float64(size)/max(mean, 1))
	for i, n := range f.Counts {
		with := float64(r.With[i])
		rare := math.Log(1 + max(float64(r.Texts)-with+.5, .5)/(with+.5))
		score += rare * float64(n) * (rankK + 1) / (float64(n) + long)
	}
	return score
}

// Best returns the match to show. It is the match with the most other matches in the next
// within bytes, and the first of these if several tie.
func (f Fit) Best(within int) (best Match) {
	most := 0
	for i, n := range f.Counts {
		if n == 0 {
			continue
		}
		m, near := f.First[i], 0
		for j, n := range f.Counts {
			if o := f.First[j]; n > 0 && o.Text == m.Text && o.Start >= m.Start && o.Start < m.Start+within {
				near++
			}
		}
		first := m.Text < best.Text || m.Text == best.Text && m.Start < best.Start
		if near > most || near == most && first {
			best, most = m, near
		}
	}
	return best
}

// Excerpt returns a part of about size bytes of a text around a match, and the place of the
// match in it. A quarter of the bytes is before the match. A match that is too long for
// the part is cut.
func Excerpt(text string, start, end, size int) (part string, from, to int) {
	a := max(0, min(start-size/4, len(text)-size))
	b := min(len(text), a+size)
	for a < start && !utf8.RuneStart(text[a]) {
		a++
	}
	for b < len(text) && !utf8.RuneStart(text[b]) {
		b++
	}
	return strings.Clone(text[a:b]), start - a, min(end, b) - a
}
