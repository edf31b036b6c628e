package rebuild

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// History is what a model is shown: a system prefix, empty unless a summary is
// rendered there, and messages by the rules of this package. It may be empty
// and it may end with an assistant message. Every message carries its Origins.
type History struct {
	System string `json:"system,omitempty"`
	// Prompt is the system prompt that the session keeps, and which tools may be
	// called, in front of System; later changes of these are texts in Messages.
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
	// Answered is the model that the last answer names, as [Fold.Answered] says it.
	Answered string `json:"-"`
}

// SystemPrompt returns what stands in front of the messages of a request: the system
// prompt of an application, Prompt and System, an empty line between them.
func (h History) SystemPrompt(own string) string {
	prompts := slices.DeleteFunc([]string{own, h.Prompt, h.System}, func(s string) bool { return s == "" })
	return strings.Join(prompts, "\n\n")
}

// StartsTurn reports whether a turn starts at message i: a user message that
// is the first one or comes after an assistant message without calls.
func (h History) StartsTurn(i int) bool {
	return h.Messages[i].Role == transcript.RoleUser && (i == 0 || len(h.Messages[i-1].ToolCalls()) == 0)
}
