package compact

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Extractive is a [Summarizer] that needs no model: it puts together what is
// said in the messages, word for word. The same input gives the same summary.
// The zero value is ready to use, by several goroutines.
//
// The summary has, under headings and in this order, as far as there is
// anything: an earlier summary that another summarizer wrote; the user's first
// request; what else the user said; the paths, URLs and identifiers that were
// mentioned; the last errors of tools; the last answer; calls without a result.
// A summary of its own that it is given as the previous one is taken apart and
// merged, so a summary made a hundred times is one summary and not a hundred.
//
// It never has more than the tokens that are allowed, of which fewer than 48
// count as 48. If there is no room for all, each part has a share, the newest
// of a part comes first, and what a part does not need goes to the user's
// words. Headings and notes say how much was left out.
//
// It does not understand what it keeps: a secret in a message may be in the
// summary, and reasoning, images and the results of calls that succeeded are
// not in it but for the identifiers in these.
type Extractive struct {
	// Counter measures the summary; nil means [tokens.Estimator].
	Counter tokens.Counter
	// Identifiers is how many paths, URLs and identifiers are listed at most.
	// 0 means 100; less than 0 is none.
	Identifiers int
}

const (
	minExtract         = 48 // tokens
	defaultIdentifiers = 100
	maxErrors          = 3
	maxOpenCalls       = 5
	maxQuotedError     = 500 // runes
	maxQuotedInput     = 200 // runes
)

// Summarize implements [Summarizer]. The error is that of ctx, [ErrEmpty] if
// there is neither a message nor a previous summary, or says that the counter
// finds no text small enough.
func (e Extractive) Summarize(ctx context.Context, in Input) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if len(in.Messages) == 0 && blank(in.Previous) {
		return "", ErrEmpty
	}
	x := parseExtract(in.Previous)
	x.merge(in.Messages, e.limit())
	room := max(cmp.Or(in.MaxTokens, defaultSummary), minExtract)
	return x.fit(counterOr(e.Counter), room)
}

func (e Extractive) limit() int {
	return max(cmp.Or(e.Identifiers, defaultIdentifiers), 0)
}

// merge adds what messages say.
func (x *extract) merge(msgs []transcript.Message, identifiers int) {
	x.messages = addCount(x.messages, len(msgs))
	g := gatherer{latest: map[string]int{}}
	for _, m := range msgs {
		for i, b := range m.Content {
			g.block(m, i, b)
		}
	}
	said := g.said
	if x.opens() && len(said) > 0 {
		x.sections[firstRequest].items, said = said[:1], said[1:]
	}
	x.sections[userSaid].append(said, math.MaxInt)
	x.sections[toolErrors].append(g.errors, maxErrors)
	x.sections[openCalls].append(g.open(), maxOpenCalls)
	if g.answer != "" {
		x.sections[lastAnswer].items = []string{g.answer}
	}
	x.sections[mentioned].merge(g.marked, identifiers)
}

// gatherer goes over messages once.
type gatherer struct {
	said   []string // the texts of the user
	answer string   // the last text of the assistant
	errors []string
	calls  []call
	latest map[string]int // ID -> the last call that has it
	marked marks
}

type call struct {
	transcript.ToolCallBlock
	answered bool
}

func (g *gatherer) block(m transcript.Message, i int, b transcript.Block) {
	switch b := b.(type) {
	case transcript.TextBlock:
		text := plain(b.Text)
		if blank(text) || isMadeUp(m, i, text) {
			return
		}
		if m.Role == transcript.RoleUser {
			g.said = append(g.said, text)
		} else {
			g.answer = text
		}
		g.marked.text(text)
	case transcript.ToolCallBlock:
		g.latest[b.ID] = len(g.calls)
		g.calls = append(g.calls, call{b, false})
		g.marked.input(b.Input)
	case transcript.ToolResultBlock:
		g.result(b)
	case transcript.DocumentBlock:
		g.marked.text(b.Title)
		g.marked.text(b.Source.URL)
	case transcript.ImageBlock:
		g.marked.text(b.Source.URL)
	case transcript.ContextBlock:
		g.marked.text(b.URI)
	}
}

func (g *gatherer) result(b transcript.ToolResultBlock) {
	text := plain(b.Text())
	if b.IsError && text == rebuild.Interrupted {
		return // made up for a call without a result
	}
	name := "unknown"
	if i, ok := g.latest[b.CallID]; ok {
		g.calls[i].answered = true
		name = label(g.calls[i].Name)
	}
	g.marked.result(clip(text, defaultResults))
	if b.IsError {
		g.errors = append(g.errors, name+": "+clip(cmp.Or(text, "(no content)"), maxQuotedError))
	}
}

// open returns the calls without a result.
func (g *gatherer) open() []string {
	var open []string
	for _, c := range g.calls {
		if !c.answered {
			open = append(open, label(c.Name)+" "+clip(plain(callInput(c.ToolCallBlock)), maxQuotedInput))
		}
	}
	return open
}

// isMadeUp reports whether a text is one that a fold puts in.
func isMadeUp(m transcript.Message, i int, text string) bool {
	return text == rebuild.Opening && (i >= len(m.Origins) || m.Origins[i].Entry == "")
}

// plain is a text in UTF-8 with line feeds at the ends of its lines.
func plain(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.Contains(s, "\r") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	return strings.TrimSpace(s)
}

// The shares of the parts, in hundredths of the tokens allowed, in the order
// in which they are filled: first all of them, then what is left by the rest.
var shares = []struct {
	section, percent int
}{
	{firstRequest, 15},
	{userSaid, 25},
	{earlier, 20},
	{mentioned, 15},
	{lastAnswer, 8},
	{toolErrors, 7},
	{openCalls, 5},
	// What the others left.
	{firstRequest, 35},
	{userSaid, 100},
	{firstRequest, 100},
	{earlier, 100},
	{mentioned, 100},
	{lastAnswer, 100},
	{toolErrors, 100},
	{openCalls, 100},
}

// fit renders the extract with at most so many tokens.
func (x *extract) fit(counter tokens.Counter, room int) (string, error) {
	// No more characters than that fit, whatever they are; notes are added.
	most := room * 16
	for i := range x.sections {
		x.sections[i].prepare(most)
	}
	text := x.render()
	size := countText(counter, text)
	if size > room {
		return "", fmt.Errorf("no extract has as little as %d tokens", room)
	}
	for _, s := range shares {
		section := &x.sections[s.section]
		limit := min(room, size+room*s.percent/100)
		had, highest := section.shown, x.full(s.section)
		fits := func(n int) bool {
			section.shown = n
			return countText(counter, x.render()) <= limit
		}
		if had >= highest {
			continue
		}
		if !fits(highest) {
			n := largest(highest-had, func(n int) bool { return fits(had + n) })
			section.shown = had + n
		}
		text = x.render()
		size = countText(counter, text)
	}
	return strings.TrimSpace(text), nil
}
