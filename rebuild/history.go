package rebuild

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// A History is shown to a model. It consists of a system prefix, which is empty unless
// a summary is rendered there, and messages by the rules of this package. It may be
// empty, and it may end with an assistant message. Every message carries its Origins.
type History struct {
	System string `json:"system,omitempty"`
	// Prompt is the session's system prompt and its list of callable tools, and
	// precedes System. Later changes of these are texts in Messages.
	Prompt   string               `json:"prompt,omitempty"`
	Messages []transcript.Message `json:"messages"`
	// Compaction is the compaction whose summary begins the history, or nil. It must
	// not be modified.
	Compaction *transcript.Compaction `json:"-"`
	// After is the entry ID of the last line of the history, for [transcript.Made]. It
	// is empty in a view from [Fit] or with [Options].Full.
	After string `json:"-"`
	// Cleared is the number of tokens of Messages that the provider cleared from the
	// request for the last answer, by its own context editing. It will clear them from
	// the next request as well. Cleared is 0 after a compaction.
	Cleared int `json:"-"`
	// Answered is the model that the last answer names; see [Fold.Answered].
	Answered string `json:"-"`
}

// SystemPrompt returns the complete system prompt of a request: the application's own
// prompt, Prompt and System, separated by empty lines.
func (h History) SystemPrompt(own string) string {
	prompts := slices.DeleteFunc([]string{own, h.Prompt, h.System}, func(s string) bool { return s == "" })
	return strings.Join(prompts, "\n\n")
}

// StartsTurn reports whether a turn starts at message i. A turn starts with a user
// message that is the first message, or that follows an assistant message without
// calls.
func (h History) StartsTurn(i int) bool {
	return h.Messages[i].Role == transcript.RoleUser && (i == 0 || len(h.Messages[i-1].ToolCalls()) == 0)
}
