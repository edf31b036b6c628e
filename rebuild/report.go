package rebuild

import "fmt"

// A Report lists repairs, in the order of the history.
type Report []Repair

// Repair is one deviation of a history from its entries.
type Repair struct {
	Rule   Rule   `json:"rule"`
	Entry  string `json:"entry,omitempty"` // the ID of the repaired entry
	Detail string `json:"detail,omitempty"`
}

// String returns a one-line description.
func (r Repair) String() string {
	s := string(r.Rule)
	if r.Entry != "" {
		s += " at entry " + r.Entry
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// A Rule names a repair. The rules of the fold are
//
//	missing-result       a call has no result: an error result was made up
//	orphan-result        a result without a call was left out
//	doubled-result       a second result of one call was left out
//	moved-result         a result was moved to its place after its call
//	late-result          a result came after an answer to a request without it, and is shown as a text
//	doubled-call         a call that was recorded twice is shown once
//	unfinished-call      a call of a cut answer that never ran was left out
//	cut-answer           an answer was cut; its whole parts are shown
//	incomplete-batch     an append was cut; its whole parts are shown
//	superseded-batch     a cut append was left out in favour of its retry
//	blank-text           a text of only white space was left out
//	empty-message        a message without content was left out
//	bad-name             a tool's name was changed to one that providers accept
//	bad-input            a call's input was made an object
//	misplaced-block      a block that its place does not allow was left out
//	merged-messages      neighbours of one role were merged
//	assistant-first      a user placeholder was put first
//	unresolved-rewind    a rewind to a missing entry was ignored
//	unresolved-boundary  a compaction's first kept entry is missing
//	unresolved-clip      a clip of a missing entry or block was ignored
//	hidden-entry         a hidden entry was left out
//	unknown-entry        an entry of an unknown type was ignored
//	over-budget          the newest turn exceeds the budget of Fit
//
// and the rules of a renderer, for one provider:
//
//	dropped-thinking     reasoning of another model or an earlier turn was left out
//	dropped-block        an opaque block of another provider was left out
//	dropped-member       a member of a block that the target does not know was left out
//	rewritten-id         a call ID was changed, on both sides
//	replaced-block       a block that the target does not take became a text
//	moved-media          an image or a document of a result was moved after the results: the target takes only texts in them
//	split-answer         an answer with more calls than the target takes became several, each with its results
//	added-answer         a short answer was put before a user message
//	added-text           a short user text was put after an answer at the end
//	added-tools          a request with calls but without tools got definitions with only the names
//	half-surrogate       half a character in the JSON of a call or a block became U+FFFD
//	thinking-off         thinking was turned off: the running turn lacks its reasoning, or there is no room
//	thinking-less        the budget for thinking was lowered below the output limit
type Rule string

// note adds a repair, unless r is nil.
func (r *Report) note(rule Rule, entry, format string, args ...any) {
	if r != nil {
		*r = append(*r, Repair{Rule: rule, Entry: entry, Detail: fmt.Sprintf(format, args...)})
	}
}
