package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// History is what a model is shown: a system prefix, empty unless a summary is
// rendered there, and messages by the rules of this package. It may be empty
// and it may end with an assistant message. Every message carries its Origins.
type History struct {
	System string `json:"system,omitempty"`
	// Prompt is the system prompt that the session keeps, in front of System;
	// later changes of it are texts in Messages.
	Prompt   string               `json:"prompt,omitempty"`
	Messages []transcript.Message `json:"messages"`
	// Compaction is the one whose summary the history begins with, nil if there
	// is none. It must not be modified.
	Compaction *transcript.Compaction `json:"-"`
	// After is the entry ID of the last line that the history was made of, for
	// [transcript.Made]; empty for a view such as that of [Fit] or [Options].Full.
	After string `json:"-"`
	// Cleared is how many tokens of Messages the provider has left out of the
	// request for the last answer, by its own context editing, and will leave out
	// of the next one. 0 after a compaction.
	Cleared int `json:"-"`
}

// StartsTurn reports whether a turn starts at message i: a user message that
// is the first one or comes after an assistant message without calls.
func (h History) StartsTurn(i int) bool {
	return h.Messages[i].Role == transcript.RoleUser && (i == 0 || len(h.Messages[i-1].ToolCalls()) == 0)
}

// Fit returns the summary of h, if it has one, and the newest whole turns behind
// it, which together have at most budget tokens, counted message by message by
// size. The newest turn is always there: if it alone is over the budget, or with
// the summary is, the report says so ([OverBudget]).
//
// Fit is a view and changes nothing. If it leaves something out, it leaves out
// the reasoning too that was made behind it, as [Reasoned] does.
func Fit(h History, budget int, size func(transcript.Message) int) (History, Report) {
	summary, rest := h.parts()
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
			report = Report{repairf(OverBudget, entry, "the newest turn has %d tokens, and %d are left for it", turn, max(budget, 0))}
			break
		}
		budget, turn = budget-turn, 0
	}
	if from > 0 {
		rest = withoutReasoning(rest[from:], func(o transcript.Origin) bool { return o.Answer != nil && signs(o.API) })
	}
	if n := len(summary); n > 0 && len(rest) > 0 && summary[n-1].Role == rest[0].Role {
		summary[n-1] = join(summary[n-1], rest[0])
		rest = rest[1:]
	}
	h.Messages, h.After, h.Cleared = slices.Concat(summary, rest), "", 0
	return h, report
}

// parts returns the messages of a summary and those behind it. The blocks of a
// summary come from an entry and from no batch of messages.
func (h History) parts() (summary, rest []transcript.Message) {
	for i, m := range h.Messages {
		n := slices.IndexFunc(m.Origins, func(o transcript.Origin) bool { return o.Entry == "" || o.Batch > 0 })
		if n < 0 && len(m.Origins) == len(m.Content) {
			summary = append(summary, m)
			continue
		}
		rest = slices.Clone(h.Messages[i:])
		if n > 0 {
			head := transcript.Message{Role: m.Role, Content: slices.Clip(m.Content[:n]), Origins: slices.Clip(m.Origins[:n])}
			summary = append(summary, head)
			rest[0] = transcript.Message{Role: m.Role, Content: m.Content[n:], Origins: m.Origins[n:]}
		}
		break
	}
	return summary, rest
}
