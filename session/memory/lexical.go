package memory

import (
	"context"
	"strings"

	"github.com/convolog/convolog/internal/words"
)

// lexical is the Decider of [Options] that compares words.
type lexical struct{}

// alike is the share of common words from which two first lines count as equal.
const alike = 0.6

// Decide implements [Decider]. The error is always nil.
func (lexical) Decide(_ context.Context, c Candidate, similar []Memory) (Decision, error) {
	for _, m := range similar {
		if lexicallyIn(c.Text, m.Text) {
			return Decision{Action: Skip, Into: m.ID, Reason: "every line of it is known"}, nil
		}
	}
	for _, m := range similar {
		if c.Category == profile || m.topics()[lineKey(c.Topic)] || alikeness(termSet(c.Abstract), termSet(m.Abstract)) >= alike {
			return Decision{Action: Merge, Into: m.ID, Text: mergeLines(m, c), Reason: "it is about the same"}, nil
		}
	}
	return Decision{Action: Create, Reason: "no memory is like it"}, nil
}

func (m Memory) topics() map[string]bool {
	set := map[string]bool{lineKey(m.Topic): true, lineKey(m.Name): true}
	delete(set, "")
	return set
}

func termSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, term := range words.Terms(text) {
		set[term] = true
	}
	return set
}

// alikeness is the share of common words of two texts, from 0 to 1.
func alikeness(a, b map[string]bool) float64 {
	common := 0
	for term := range a {
		if b[term] {
			common++
		}
	}
	return 2 * float64(common) / float64(max(len(a)+len(b), 1))
}

// The lines between merged texts.
const (
	earlierLine = "Earlier:"
	laterLine   = "Later:"
	joinedMost  = 200 // bytes of the first line of a profile
)

// mergeLines joins a memory and a candidate and keeps every line of both.
func mergeLines(m Memory, c Candidate) Text {
	older, newer := m.normal(), c.normal()
	if m.Edited {
		return behind(older, laterLine, newer)
	}
	if c.Category == profile && older.Abstract != newer.Abstract { // its first line sums up the person
		joined := older.Abstract + "; " + newer.Abstract
		if len(joined) > joinedMost {
			joined, newer.Content = older.Abstract, newer.Abstract+"\n\n"+newer.Content
		}
		newer.Abstract = joined
	}
	return behind(newer.normal(), earlierLine, older)
}

// behind appends the paragraphs of another text that add something to a text's
// content.
func behind(t Text, heading string, rest Text) Text {
	have := t.lineKeys()
	headed := have[lineKey(heading)]
	have[lineKey(earlierLine)], have[lineKey(laterLine)] = true, true
	var parts []string
	for part := range strings.SplitSeq(rest.Abstract+"\n\n"+rest.Overview+"\n\n"+rest.Content, "\n\n") {
		if !allIn(part, have) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return t
	}
	if !headed {
		parts = append([]string{heading}, parts...)
	}
	t.Content += "\n\n" + strings.Join(parts, "\n\n")
	return t.normal()
}

// shorten drops the last lines of the content, which are the oldest, until the text
// has at most limit bytes.
func (t Text) shorten(limit int) Text {
	if room := limit - (t.size() - len(t.Content)); t.size() > limit {
		t.Content = t.Content[:max(room, 0)]
		t.Content = t.Content[:max(strings.LastIndexByte(t.Content, '\n'), 0)]
	}
	return t.normal()
}

// lexicallyIn reports whether one text contains every line of another.
func lexicallyIn(part, whole Text) bool {
	return allIn(part.Abstract+"\n"+part.Overview+"\n"+part.Content, whole.lineKeys())
}

// lineKeys returns the keys of all lines, and of the parts of a first line.
func (t Text) lineKeys() map[string]bool {
	have := map[string]bool{"": true}
	for line := range strings.SplitSeq(strings.ReplaceAll(t.Abstract, ";", "\n")+"\n"+t.Abstract+"\n"+t.Overview+"\n"+t.Content, "\n") {
		have[lineKey(line)] = true
	}
	return have
}

func allIn(part string, have map[string]bool) bool {
	for line := range strings.SplitSeq(part, "\n") {
		if !have[lineKey(line)] {
			return false
		}
	}
	return true
}

// lineKey is equal for lines with the same words.
func lineKey(line string) string { return strings.Join(words.Terms(line), " ") }
