package compact

import (
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// shownTurns is how many turns [Cut.Detail] lists of each part.
const shownTurns = 10

// Detail describes the plan on several lines, for people: that of String, why
// there, and for each turn of h, the history it was made of, its size and how it
// begins. Of more than ten turns that are summarised, or kept, those in the
// middle are counted. Nil counter means [tokens.Estimator]. The text ends with a
// line feed.
func (c Cut) Detail(h rebuild.History, counter tokens.Counter) string {
	var sb strings.Builder
	sb.WriteString(c.String() + "\n")
	if why := c.why(); why != "" {
		sb.WriteString("  " + why + "\n")
	}
	if c.Nothing != "" {
		return sb.String()
	}
	at := min(max(c.At, 0), len(h.Messages))
	list := turnsOf(h, at, counterOr(counter))
	covered := 0
	for covered < len(list) && list[covered].from < at {
		covered++
	}
	writeTurns(&sb, "summarise", list[:covered])
	writeTurns(&sb, "keep", list[covered:])
	fmt.Fprintf(&sb, "  for ~%d tokens a summary of %d at most, and %d for what code carries\n", c.Covered, c.MaxSummary, c.MaxCarried)
	return sb.String()
}

// why says what was asked for.
func (c Cut) why() string {
	var parts []string
	switch k := c.Keep; {
	case k.Turns > 0:
		parts = append(parts, fmt.Sprintf("to keep: %d turns", k.Turns))
	case k.Fraction > 0:
		parts = append(parts, fmt.Sprintf("to keep: %g of the messages", k.Fraction))
	case k.Tokens > 0:
		parts = append(parts, fmt.Sprintf("to keep: ~%d tokens", k.Tokens))
	}
	if c.Room > 0 {
		parts = append(parts, fmt.Sprintf("room for a history: %d tokens", c.Room))
	}
	if c.Limit > 0 {
		parts = append(parts, fmt.Sprintf("compaction due above %d, of which ~%d are sent besides", c.Limit, c.Overhead))
	}
	return strings.Join(parts, "; ")
}

// turnPart is a turn, or the part of one on one side of a cut.
type turnPart struct {
	number, from, messages, size int
	continued                    bool
	begins                       string
}

func turnsOf(h rebuild.History, at int, counter tokens.Counter) []turnPart {
	var list []turnPart
	number := 0
	for i, m := range h.Messages {
		starts := h.StartsTurn(i)
		if starts {
			number++
		}
		if starts || i == at || len(list) == 0 {
			list = append(list, turnPart{number: number, from: i, continued: !starts, begins: firstOf(beginning(m), 60)})
		}
		p := &list[len(list)-1]
		p.messages++
		p.size += counter.Count("", nil, h.Messages[i:i+1])
	}
	return list
}

// firstOf returns the first runes of a text on one line, and … for the others.
func firstOf(s string, limit int) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit-1]) + "…"
}

// beginning is a text to know a message by.
func beginning(m transcript.Message) string {
	if lines := userLines(m); m.Role == transcript.RoleUser && len(lines) > 0 {
		return lines[0].Text
	}
	return strings.ReplaceAll(Document{Results: 60, Texts: 60}.Text([]transcript.Message{m}), "\n", " ")
}

func writeTurns(sb *strings.Builder, what string, list []turnPart) {
	for i, p := range list {
		if gone := len(list) - shownTurns; gone > 1 && i >= shownTurns/2 && i < len(list)-shownTurns/2 {
			if i == shownTurns/2 {
				messages, size := 0, 0
				for _, p := range list[i : i+gone] {
					messages, size = messages+p.messages, size+p.size
				}
				fmt.Fprintf(sb, "  %s %d turns more, %d messages, ~%d tokens\n", what, gone, messages, size)
			}
			continue
		}
		number := fmt.Sprintf("turn %d", p.number)
		if p.continued {
			number += ", continued"
		}
		fmt.Fprintf(sb, "  %s %s, %d messages, ~%d tokens: %s\n", what, number, p.messages, p.size, strings.ReplaceAll(p.begins, "\n", " "))
	}
}
