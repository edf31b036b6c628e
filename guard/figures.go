package guard

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// figures are the sizes in an error. Zero means that the error does not name the size.
type figures struct {
	prompt, limit, output int
	total                 int  // prompt and output together
	atLeast               bool // prompt is a lower bound
}

var digit = lazy.New(`\d`)

// hide masks numbers that are not sizes, and returns the text in lower case.
func hide(sort, text string) string {
	blank := func(s string) string { return digit.Get().ReplaceAllString(s, "#") }
	text = find("name").ReplaceAllStringFunc(text, blank)
	if sort == tokenSizes {
		text = find("foreign").ReplaceAllStringFunc(text, blank)
	}
	return strings.ToLower(text)
}

// readFigures reads the sizes of one sort from a text.
func readFigures(sort, text string) figures {
	excess := find("excess").FindStringSubmatch(text)
	text = hide(sort, text)
	var f figures
	for _, p := range known().sizes[sort] {
		if f.limit > 0 && f.prompt > 0 && f.output > 0 {
			break
		}
		f.read(p, text)
	}
	if f.prompt == 0 && f.limit > 0 && excess != nil {
		f.prompt = addSizes(f.limit, parseNumber(excess[1]))
	}
	if f.prompt == f.total && find("of_both").MatchString(text) {
		f.prompt = 0
	} else if f.prompt == 0 && f.total > 0 {
		f.prompt = f.total
		if f.output > 0 && f.output < f.total {
			f.prompt = f.total - f.output
		}
	}
	f.atLeast = f.prompt > 0 && find("lower_bound").MatchString(text)
	return f
}

// compare derives the sizes of a prompt that is too long: of two numbers the greater is
// the prompt and the smaller is the limit. It is for texts in which the patterns find
// at most one number. It does nothing if several numbers qualify.
func (f *figures) compare(text string) {
	if f.prompt == f.limit {
		f.prompt = f.total // two patterns have read the same number
	}
	if f.prompt > 0 && f.limit > 0 || f.output > 0 || f.total > 0 {
		return
	}
	const apart = 50 // no prompt is that many times its limit
	text = hide(tokenSizes, text)
	var found []int
	for _, m := range find("number").FindAllStringSubmatch(text, 16) {
		n := parseNumber(m[1])
		if n < minLimit || n == f.prompt || n == f.limit || slices.Contains(found, n) {
			continue
		}
		if f.limit > 0 && (n < f.limit || n/apart > f.limit) || f.prompt > 0 && (n > f.prompt || f.prompt/apart > n) {
			continue
		}
		found = append(found, n)
	}
	slices.Sort(found)
	switch {
	case len(found) == 1 && f.limit > 0:
		f.prompt = found[0]
	case len(found) == 1 && f.prompt > 0:
		f.limit = found[0]
	case len(found) == 2 && f.limit == 0 && f.prompt == 0 && found[1]/apart <= found[0]:
		f.limit, f.prompt = found[0], found[1]
	}
}

// read adds the sizes that p finds in text and that f lacks.
func (f *figures) read(p *lazy.Regexp, text string) {
	m := p.Find(text)
	if m == nil {
		return
	}
	sizes := map[string]int{}
	for i, name := range p.Get().SubexpNames() {
		sizes[name] = cmp.Or(sizes[name], parseNumber(m[i]))
	}
	if sizes["l"] < minLimit {
		sizes["l"] = 0
	}
	f.merge(figures{prompt: sizes["p"], limit: cmp.Or(sizes["l"], sizes["n"]), output: sizes["o"], total: sizes["t"]})
}

// minLimit is the smallest limit that is believed. No model has a smaller window, so a
// smaller number was misread.
const minLimit = 256

func (f *figures) merge(g figures) {
	if f.prompt == 0 {
		f.prompt, f.atLeast = g.prompt, g.atLeast
	}
	f.limit, f.output, f.total = cmp.Or(f.limit, g.limit), cmp.Or(f.output, g.output), cmp.Or(f.total, g.total)
}

// maxSize bounds a size, so that sums fit an int everywhere. No window and no body is
// nearly as large.
const maxSize = math.MaxInt32 / 2

func addSizes(a, b int) int { return min(a+b, maxSize) }

// parseNumber reads a match of "number". A number above maxSize becomes 0.
func parseNumber(s string) int {
	digits, scale := "0123456789", 1.0
	switch s = strings.ToLower(strings.TrimSpace(s)); {
	case strings.HasSuffix(s, "k"):
		digits, scale = digits+".", 1e3
	case strings.HasSuffix(s, "m"):
		digits, scale = digits+".", 1e6
	}
	x, err := strconv.ParseFloat(strings.Map(func(r rune) rune {
		if !strings.ContainsRune(digits, r) {
			return -1
		}
		return r
	}, s), 64)
	if err != nil || x*scale > maxSize {
		return 0
	}
	return int(math.Round(x * scale))
}
