package rebuild

import "fmt"

// Report lists what was repaired, in the order of the history.
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

// Rule names a repair.
type Rule string

// The repairs of the fold.
const (
	MissingResult      Rule = "missing-result"      // a call never got its result: an error result was made up
	OrphanResult       Rule = "orphan-result"       // a result without a call was left out
	DoubledResult      Rule = "doubled-result"      // a second result of one call was left out
	MovedResult        Rule = "moved-result"        // a result was moved to its place after its call
	LateAsText         Rule = "late-result"         // a result that came after a request without it was answered is shown as a text
	DoubledCall        Rule = "doubled-call"        // a call that was recorded twice is shown once
	UnfinishedCall     Rule = "unfinished-call"     // a call of a cut answer that never ran was left out
	CutAnswer          Rule = "cut-answer"          // an answer was cut; what is whole of it is shown
	IncompleteBatch    Rule = "incomplete-batch"    // an append was cut; what is whole of it is shown
	SupersededBatch    Rule = "superseded-batch"    // a cut append was left out in favour of its retry
	BlankText          Rule = "blank-text"          // a text of white space alone was left out
	EmptyMessage       Rule = "empty-message"       // a message without content was left out
	BadName            Rule = "bad-name"            // a tool's name was changed to one that providers accept
	BadInput           Rule = "bad-input"           // a call's input was made an object
	MisplacedBlock     Rule = "misplaced-block"     // a block that cannot be in a message of its role was left out
	MergedMessages     Rule = "merged-messages"     // neighbours of one role were merged
	AssistantFirst     Rule = "assistant-first"     // a user placeholder was put in front
	UnresolvedRewind   Rule = "unresolved-rewind"   // a rewind to an entry that is not there was ignored
	UnresolvedBoundary Rule = "unresolved-boundary" // a compaction's first kept entry is not there
	UnresolvedClip     Rule = "unresolved-clip"     // a clip of something that is not there was ignored
	UnknownEntry       Rule = "unknown-entry"       // an entry of an unknown type was ignored
	OverBudget         Rule = "over-budget"         // of [Fit]: the newest turn alone is too long
)

// The repairs of a renderer: what one provider does not take.
const (
	DroppedThinking Rule = "dropped-thinking" // reasoning of another model or an earlier turn
	DroppedBlock    Rule = "dropped-block"    // an opaque block of another provider
	DroppedMember   Rule = "dropped-member"   // a member of a block that the target does not know
	RewrittenID     Rule = "rewritten-id"     // a call ID was changed, on both sides
	ReplacedBlock   Rule = "replaced-block"   // a block that the target does not take became a text
	MovedMedia      Rule = "moved-media"      // an image or a document of a result was moved behind the results: the target takes texts in them
	SplitAnswer     Rule = "split-answer"     // an answer with more calls than the target takes became several, each with its results
	AddedAnswer     Rule = "added-answer"     // a short answer was put in front of a user message
	AddedTools      Rule = "added-tools"      // a request with calls and without tools got definitions of the names alone
	HalfSurrogate   Rule = "half-surrogate"   // half a character in the JSON of a call or a block became U+FFFD
	ThinkingOff     Rule = "thinking-off"     // thinking was not asked for: the running turn's reasoning is not there, or there is no room
	ThinkingLess    Rule = "thinking-less"    // the budget for thinking was lowered: the output limit is not above it
)

func repairf(rule Rule, entry, format string, args ...any) Repair {
	return Repair{Rule: rule, Entry: entry, Detail: fmt.Sprintf(format, args...)}
}
