package compact

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// extract is the content of a summary of [Extractive], in parts. Written down
// it begins with a line that tells it from other summaries. Below a heading
// each item begins with a dash, and its further lines with two spaces, so that
// no text can be taken for a heading or another item.
type extract struct {
	messages int // that it stands for
	sections [sectionCount]section
}

// The sections in the order in which they are written.
const (
	earlier = iota
	firstRequest
	userSaid
	mentioned
	toolErrors
	lastAnswer
	openCalls
	sectionCount
)

var headings = [sectionCount]string{
	earlier:      "## Earlier summary",
	firstRequest: "## First request",
	userSaid:     "## The user said",
	mentioned:    "## Mentioned",
	toolErrors:   "## Errors of tools",
	lastAnswer:   "## Last answer",
	openCalls:    "## Calls without a result",
}

const (
	titleStart = "Extract of "
	titleEnd   = " messages, made without a model."
	moreStart  = " ("
	moreEnd    = " more left out)"
)

// section is the items below one heading: the oldest first, but what is
// mentioned by its worth.
type section struct {
	items []string
	lost  int // items that were left out already
	// shown is how much of it is written: runes, or items of what is mentioned.
	// 0 is nothing, not even the heading.
	shown int
}

// minShown is the fewest runes of a text that are worth its heading.
const minShown = 20

// opens reports whether no message of the user was seen yet.
func (x *extract) opens() bool {
	for _, i := range []int{earlier, firstRequest, userSaid} {
		if len(x.sections[i].items) > 0 || x.sections[i].lost > 0 {
			return false
		}
	}
	return true
}

// append adds items and leaves out the oldest ones if there are more than
// limit.
func (s *section) append(items []string, limit int) {
	s.items = slices.Concat(s.items, items)
	if over := len(s.items) - limit; over > 0 {
		s.items = s.items[over:]
		s.lost = addCount(s.lost, over)
	}
}

// merge puts what was mentioned now before what was mentioned earlier, and what
// is only in results of tools behind it.
func (s *section) merge(m marks, limit int) {
	old := s.items
	s.items = nil
	seen := map[string]bool{}
	add := func(items []string) {
		for _, id := range items {
			if !seen[id] {
				seen[id] = true
				s.items = append(s.items, id)
			}
		}
	}
	slices.Reverse(m.said)
	slices.Reverse(m.found)
	add(m.said)
	add(old)
	add(m.found)
	if over := len(s.items) - limit; over > 0 {
		s.items = s.items[:limit]
		s.lost = addCount(s.lost, over)
	}
}

// prepare shortens what cannot be shown anyway: no text has more than most
// runes afterwards, nor all of them together many more.
func (s *section) prepare(most int) {
	s.shown = 0
	left := most
	for i := len(s.items) - 1; i >= 0; i-- {
		if left <= 0 {
			s.items = s.items[i+1:]
			s.lost = addCount(s.lost, i+1)
			return
		}
		if utf8.RuneCountInString(s.items[i]) > most {
			s.items = slices.Clone(s.items)
			s.items[i] = clip(s.items[i], most)
		}
		left -= utf8.RuneCountInString(s.items[i])
	}
}

// full is how much is shown if all of it is.
func (x *extract) full(i int) int {
	s := &x.sections[i]
	switch {
	case len(s.items) == 0 && s.lost == 0:
		return 0
	case i == mentioned:
		return 1 + len(s.items)
	}
	n := minShown
	for _, item := range s.items {
		n += utf8.RuneCountInString(item)
	}
	return n
}

// visible returns the items that are written, and how many are not.
func (x *extract) visible(i int) (items []string, lost int) {
	s := &x.sections[i]
	n := s.shown
	switch i {
	case mentioned:
		items = s.items[:n-1]
	case earlier:
		for _, text := range s.items {
			items = append(items, clipStart(text, n))
		}
	case firstRequest, lastAnswer:
		for _, text := range s.items {
			items = append(items, clip(text, n))
		}
	default:
		items = newest(s.items, n)
	}
	return items, addCount(s.lost, len(s.items)-len(items))
}

// newest returns the last items with at most so many runes; long ones are
// shortened.
func newest(items []string, n int) []string {
	each := n
	if len(items) > 1 && utf8.RuneCountInString(strings.Join(items, "")) > n {
		each = n / 2
	}
	i := len(items)
	var list []string
	for ; i > 0 && n >= minShown; i-- {
		text := clip(items[i-1], min(each, n))
		n -= min(utf8.RuneCountInString(text), each, n)
		list = append(list, text)
	}
	slices.Reverse(list)
	return list
}

// render writes the extract, with what is shown of its sections.
func (x *extract) render() string {
	var sb strings.Builder
	sb.WriteString(titleStart + strconv.Itoa(x.messages) + titleEnd + "\n")
	for i := range x.sections {
		n := x.sections[i].shown
		if n == 0 || n < minShown && (i == earlier || i == firstRequest || i == lastAnswer) {
			continue
		}
		items, lost := x.visible(i)
		sb.WriteString("\n" + headings[i])
		if lost > 0 {
			sb.WriteString(moreStart + strconv.Itoa(lost) + moreEnd)
		}
		sb.WriteByte('\n')
		for _, item := range items {
			prefix := "- "
			for line := range strings.Lines(item) {
				if line == "\n" {
					prefix = ""
				}
				sb.WriteString(prefix + line)
				prefix = "  "
			}
			sb.WriteByte('\n')
		}
	}
	return sb.String()
}

// parseExtract takes a summary apart. One that [Extractive] did not write is an
// earlier summary as a whole, and so is what was added to one that it wrote.
func parseExtract(summary string) *extract {
	x := &extract{}
	summary = plain(summary)
	title, rest, _ := strings.Cut(summary, "\n")
	number, ok := extractTitle(title)
	if !ok {
		x.addEarlier(summary)
		return x
	}
	x.messages = parseCount(number)

	var strange []string
	var items *[]string // of the section that is read
	for line := range strings.SplitSeq(rest, "\n") {
		if i, lost, ok := parseHeading(line); ok {
			items, x.sections[i].lost = &x.sections[i].items, lost
			continue
		}
		text, isItem := strings.CutPrefix(line, "- ")
		more, isMore := strings.CutPrefix(line, "  ")
		switch {
		case items != nil && isItem:
			*items = append(*items, text)
		case items != nil && (isMore || line == "") && len(*items) > 0:
			(*items)[len(*items)-1] += "\n" + more
		case items == nil || line != "":
			items = nil
			strange = append(strange, line)
		}
	}
	for i := range x.sections {
		list := x.sections[i].items
		for j := range list {
			list[j] = strings.TrimSpace(list[j])
		}
		x.sections[i].items = slices.DeleteFunc(list, blank)
	}
	x.addEarlier(strings.Join(strange, "\n"))
	return x
}

// extractTitle returns the number in the first line of an extract.
func extractTitle(line string) (number string, ok bool) {
	number, isTitle := strings.CutPrefix(line, titleStart)
	number, isEnd := strings.CutSuffix(number, titleEnd)
	return number, isTitle && isEnd
}

// isExtract reports whether [Extractive] wrote a summary.
func isExtract(summary string) bool {
	title, _, _ := strings.Cut(summary, "\n")
	_, ok := extractTitle(title)
	return ok
}

// addEarlier puts a text behind the earlier summary.
func (x *extract) addEarlier(text string) {
	s := &x.sections[earlier]
	if text = strings.TrimSpace(text); !blank(text) {
		s.items = []string{strings.Join(append(s.items, text), "\n\n")}
	}
}

func parseHeading(line string) (section, lost int, ok bool) {
	for i, h := range headings {
		rest, found := strings.CutPrefix(line, h)
		if !found {
			continue
		}
		if rest == "" {
			return i, 0, true
		}
		rest, isStart := strings.CutPrefix(rest, moreStart)
		rest, isEnd := strings.CutSuffix(rest, moreEnd)
		return i, parseCount(rest), isStart && isEnd
	}
	return 0, 0, false
}

const maxCount = 1_000_000_000

func parseCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return addCount(n, 0)
}

// addCount adds what was counted, by numbers that may be wrong.
func addCount(a, b int) int { return min(max(a, 0), maxCount) + min(max(b, 0), maxCount) }
