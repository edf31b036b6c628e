package rebuild

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// A History is shown to a model: a system prefix, empty unless a summary is
// rendered there, and messages by the rules of this package. It may be empty
// and it may end with an assistant message. Every message carries its Origins.
type History struct {
	System string `json:"system,omitempty"`
	// Prompt, which precedes System, is the session's system prompt and its list
	// of callable tools; later changes of these are texts in Messages.
	Prompt   string               `json:"prompt,omitempty"`
	Messages []transcript.Message `json:"messages"`
	// Compaction is the one whose summary begins the history, or nil. It must
	// not be modified.
	Compaction *transcript.Compaction `json:"-"`
	// After is the entry ID of the last line in the history, for
	// [transcript.Made]; empty for a view, as by [Fit] or [Options].Full.
	After string `json:"-"`
	// Cleared is how many tokens of Messages the provider has left out of the
	// request for the last answer, by its own context editing, and will leave out
	// of the next one. 0 after a compaction.
	Cleared int `json:"-"`
	// Answered is the model that the last answer names, see [Fold.Answered].
	Answered string `json:"-"`
}

// SystemPrompt returns the complete system prompt of a request: the one of an
// application, Prompt and System, separated by empty lines.
func (h History) SystemPrompt(own string) string {
	prompts := slices.DeleteFunc([]string{own, h.Prompt, h.System}, func(s string) bool { return s == "" })
	return strings.Join(prompts, "\n\n")
}

// StartsTurn reports whether a turn starts at message i: a user message that
// is the first one or comes after an assistant message without calls.
func (h History) StartsTurn(i int) bool {
	return h.Messages[i].Role == transcript.RoleUser && (i == 0 || len(h.Messages[i-1].ToolCalls()) == 0)
}

// Fit returns the summary of h, if it has one, and the newest whole turns after
// it, together at most budget tokens, counted message by message by size. The
// newest turn is always included: if it exceeds the budget, alone or with the
// summary, the report has [OverBudget].
//
// Fit is a view and changes nothing. If it leaves messages out, it also drops
// the reasoning made after them, as [Reasoned] does.
func Fit(h History, budget int, size func(transcript.Message) int) (History, Report) {
	// The blocks of a summary come from an entry and from no batch of messages.
	isSummary := func(_ transcript.Block, o transcript.Origin) bool { return o.Entry != "" && o.Batch == 0 }
	rest := Without(h.Messages, isSummary)
	summary := Without(h.Messages, func(b transcript.Block, o transcript.Origin) bool { return !isSummary(b, o) })
	summary = slices.DeleteFunc(summary, func(m transcript.Message) bool { return len(m.Content) == 0 }) // they are in rest
	for _, m := range summary {
		budget -= size(m)
	}
	var report Report
	from, turn := len(rest), 0
	for i, m := range slices.Backward(rest) {
		turn += size(m)
		if i > 0 && !(History{Messages: rest}).StartsTurn(i) {
			continue
		}
		if turn > budget && from < len(rest) {
			break
		}
		if from = i; turn > budget {
			entry := ""
			if len(m.Origins) > 0 {
				entry = m.Origins[0].Entry
			}
			report = Report{repairf("over-budget", entry, "the newest turn has %d tokens, and %d are left for it", turn, max(budget, 0))}
			break
		}
		budget, turn = budget-turn, 0
	}
	if from > 0 {
		rest = Without(rest[from:], isBound)
	}
	if n := len(summary); n > 0 && len(rest) > 0 && summary[n-1].Role == rest[0].Role {
		summary[n-1] = join(summary[n-1], rest[0])
		rest = rest[1:]
	}
	h.Messages, h.After, h.Cleared = slices.Concat(summary, rest), "", 0
	return h, report
}
