package rebuild

import "fmt"

// A Report lists repairs, in the order of the history.
type Report []Repair

// Repair is one deviation of a history from the entries it was made of.
type Repair struct {
	Rule   Rule   `json:"rule"`
	Entry  string `json:"entry,omitempty"` // ID of the entry it concerns
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
//	missing-result       a call never got its result: an error result was made up
//	orphan-result        a result without a call was left out
//	doubled-result       a second result of one call was left out
//	moved-result         a result was moved to its place after its call
//	late-result          a result that came after a request without it was answered is shown as a text
//	doubled-call         a call that was recorded twice is shown once
//	unfinished-call      a call of a cut answer that never ran was left out
//	cut-answer           an answer was cut; what is whole of it is shown
//	incomplete-batch     an append was cut; what is whole of it is shown
//	superseded-batch     a cut append was left out in favour of its retry
//	blank-text           a text of white space alone was left out
//	empty-message        a message without content was left out
//	bad-name             a tool's name was changed to one that providers accept
//	bad-input            a call's input was made an object
//	misplaced-block      a block that cannot be in a message of its role was left out
//	merged-messages      neighbours of one role were merged
//	assistant-first      a user placeholder was put in front
//	unresolved-rewind    a rewind to an entry that is not there was ignored
//	unresolved-boundary  a compaction's first kept entry is not there
//	unresolved-clip      a clip of something that is not there was ignored
//	hidden-entry         a hidden entry was left out
//	unknown-entry        an entry of an unknown type was ignored
//	over-budget          of Fit: the newest turn alone is too long
//
// and the rules of a renderer, for one provider:
//
//	dropped-thinking     reasoning of another model or an earlier turn
//	dropped-block        an opaque block of another provider
//	dropped-member       a member of a block that the target does not know
//	rewritten-id         a call ID was changed, on both sides
//	replaced-block       a block that the target does not take became a text
//	moved-media          an image or a document of a result was moved behind the results: the target takes texts in them
//	split-answer         an answer with more calls than the target takes became several, each with its results
//	added-answer         a short answer was put in front of a user message
//	added-text           a short text of the user was put after an answer at the end
//	added-tools          a request with calls and without tools got definitions of the names alone
//	repeated-entry       lines that stand in the transcript before, and count once
//	half-surrogate       half a character in the JSON of a call or a block became U+FFFD
//	thinking-off         thinking was not asked for: the running turn's reasoning is not there, or there is no room
//	thinking-less        the budget for thinking was lowered: the output limit is not above it
type Rule string

// note adds a repair, unless r is nil.
func (r *Report) note(rule Rule, entry, format string, args ...any) {
	if r != nil {
		*r = append(*r, Repair{Rule: rule, Entry: entry, Detail: fmt.Sprintf(format, args...)})
	}
}
