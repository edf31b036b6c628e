package compact

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Extractive is a [Summarizer] that needs no model: it joins texts of the
// messages, word for word. The same input gives the same summary. The zero
// value is ready to use, by several goroutines.
//
// The summary holds the previous one, at most half of the tokens if the rest is
// needed, then in order an item for each text of the user and the assistant,
// each error of a tool and each call without a result. Without room for all,
// long texts are cut in their middle, and then texts between the first and the
// newest are left out. The amount left out is stated.
//
// It never has more tokens than allowed; a limit below 48 counts as 48. Strings
// that look like passwords and keys are masked. Reasoning, images and the
// results of calls that succeeded are not in it.
type Extractive struct {
	// Counter measures the summary; nil means [tokens.Estimator].
	Counter tokens.Counter
}

const (
	minExtract     = 48  // tokens
	maxQuotedInput = 200 // runes
)

// Summarize implements [Summarizer]. It fails with the error of ctx, with
// [ErrRefused] if the input has neither a message nor a previous summary, and if the
// counter finds every text too large.
func (e Extractive) Summarize(ctx context.Context, in Input) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if len(in.Messages) == 0 && blank(in.Previous) {
		return "", errEmpty
	}
	room := max(cmp.Or(in.MaxTokens, defaultSummary), minExtract)
	b := budget{counter: tokens.Or(e.Counter)}
	title := fmt.Sprintf("Extract of %d messages, made without a model.", len(in.Messages))
	before := masked(plain(in.Previous))
	items := extracts(in.Messages, in.carried)
	const between = 8 // tokens for what joins the parts
	text := b.clip(before, room-between)
	if len(in.Messages) > 0 {
		left := room - b.size(title) - between
		shown := fewest(items, left-min(b.size(before), left/2), b)
		text = b.clip(before, left-b.size(shown)) + "\n\n" + title + "\n" + shown
	}
	text = strings.TrimSpace(text)
	if size := b.counter.Count("", nil, []transcript.Message{transcript.UserText(text)}); size > room || text == "" {
		return "", fmt.Errorf("no extract fits into %d tokens", room)
	}
	if in.extract != nil {
		*in.extract = text
	}
	return text, nil
}

// extracts returns the texts of messages; texts that are carried as well are
// cut to their beginnings.
func extracts(msgs []transcript.Message, carried bool) (items []string) {
	add := func(mark, text string) {
		if text = masked(plain(text)); !blank(text) {
			items = append(items, mark+": "+quote.Rest(text))
		}
	}
	open := map[string]int{} // call ID -> its item
	names := map[string]string{}
	for _, m := range msgs {
		if m.Role == transcript.RoleUser {
			for _, line := range userLines(m) {
				if carried {
					line.Text = firstOf(masked(line.Text), 80)
				}
				if line.Text != neutral.Opening {
					add("user", line.Text)
				}
			}
		}
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				if m.Role == transcript.RoleAssistant {
					add("assistant", b.Text)
				}
			case transcript.ToolCallBlock:
				names[b.ID], open[b.ID] = label(b.Name), len(items)
				items = append(items, "no result: "+label(b.Name)+" "+masked(clip(plain(callInput(b)), maxQuotedInput)))
			case transcript.ToolResultBlock:
				text := b.Text()
				if b.IsError && text == neutral.Interrupted {
					continue // made up for a call without a result
				}
				if at, ok := open[b.CallID]; ok {
					items[at] = ""
					delete(open, b.CallID)
				}
				if b.IsError {
					add("error of "+cmp.Or(names[b.CallID], "a tool"), cmp.Or(text, "(no content)"))
				}
			}
		}
	}
	return slices.DeleteFunc(items, func(s string) bool { return s == "" })
}

func firstOf(s string, limit int) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit-1]) + "…"
}

// fewest writes the items within most tokens: the first one, and then as many of
// the newest as there is room for.
func fewest(items []string, most int, b budget) string {
	runes := 4_000
	write := func(n int) string {
		var sb strings.Builder
		for i, item := range items {
			switch gone := len(items) - n; {
			case i == 0 && n > 0, i > gone:
				sb.WriteString("\n- " + clip(item, runes))
			case i == gone:
				fmt.Fprintf(&sb, "\n(%d more left out)", gone)
			}
		}
		return sb.String()
	}
	for ; runes > 150; runes /= 3 {
		if text := write(len(items)); b.size(text) <= most {
			return text
		}
	}
	return write(largest(len(items), func(n int) bool { return b.size(write(n)) <= most }))
}
