package compact

import (
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// shownTurns is how many turns of each part [Cut.Detail] lists.
const shownTurns = 10

// Detail describes the plan on several lines, for people: the line of String,
// the reason for the cut's place, and the size and the beginning of each turn
// of h, the planned history. If more than ten turns are summarised, or kept, it
// counts the middle ones. Nil counter means [tokens.Estimator]. The text ends
// with a line feed.
func (c Cut) Detail(h rebuild.History, counter tokens.Counter) string {
	var sb strings.Builder
	sb.WriteString(c.String() + "\n")
	if why := c.why(); why != "" {
		sb.WriteString("  " + why + "\n")
	}
	if c.Nothing != "" {
		return sb.String()
	}
	p := newPlanner(h, Options{Counter: tokens.Or(counter)})
	at := min(max(c.At, 0), len(h.Messages))
	p.list(&sb, "summarise", 0, at)
	p.list(&sb, "keep", at, len(h.Messages))
	fmt.Fprintf(&sb, "  for ~%d tokens a summary of %d at most, and %d for what code carries\n", c.Covered, c.MaxSummary, c.MaxCarried)
	return sb.String()
}

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

// list writes a line for each turn, or part of a turn, among the messages of a
// range.
func (p *planner) list(sb *strings.Builder, what string, from, to int) {
	number := 0 // of the turn at from
	var starts []int
	for i := range to {
		starting := p.h.StartsTurn(i)
		if starting && i <= from {
			number++
		}
		if i == from || starting && i > from {
			starts = append(starts, i)
		}
	}
	gone := len(starts) - shownTurns
	starts = append(starts, to)
	for k := 0; k < len(starts)-1; k++ {
		i, end := starts[k], starts[k+1]
		if k == shownTurns/2 && gone > 1 {
			k += gone - 1
			end = starts[k+1]
			fmt.Fprintf(sb, "  %s %d turns more, %d messages, ~%d tokens\n", what, gone, end-i, p.size(i, end))
			continue
		}
		turn := fmt.Sprintf("turn %d", number+k)
		if !p.h.StartsTurn(i) {
			turn += ", continued"
		}
		m := p.h.Messages[i]
		text := Document{Results: 60, Texts: 60}.Text([]transcript.Message{m})
		if lines := userLines(m); m.Role == transcript.RoleUser && len(lines) > 0 {
			text = lines[0].Text
		}
		fmt.Fprintf(sb, "  %s %s, %d messages, ~%d tokens: %s\n", what, turn, end-i, p.size(i, end), firstOf(text, 60))
	}
}

func firstOf(s string, limit int) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit-1]) + "…"
}
