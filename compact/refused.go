package compact

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript/tokens"
)

// Errors of summaries that are refused. [Run] refuses whatever its summarizer
// wrote, [Model] what a model wrote, and [Either] what any but the last of its
// summarizers wrote. Sizes of texts are those of [tokens.Estimator]. What
// [Extractive] wrote is refused only if it is not smaller.
var (
	// ErrEmpty says that the summary has nothing that can be seen, or nothing but
	// reasoning between <think> tags. Reasoning in front of a summary is taken
	// out of it.
	ErrEmpty = errors.New("the summary is empty")
	// ErrNotSmaller says that the summary is not smaller than what it stands
	// for, or that the history would be smaller by less than 10 % and less than
	// 2,000 tokens. Where little is summarised, a quarter of that suffices.
	ErrNotSmaller = errors.New("the summary is not smaller than what it stands for")
	// ErrTooLong says that the summary has more than twice the tokens that were
	// asked for, and more than 256.
	ErrTooLong = errors.New("the summary is too long")
	// ErrTooShort says that the summary says nothing: it is a word like "OK" or
	// "Done"; or it has fewer than 64 tokens and begins like "Understood, I will"
	// or is "Here is the summary:"; or it stands for n tokens, 4,000 or more, and
	// has fewer than n/200, of which 40 are always enough.
	ErrTooShort = errors.New("the summary is too short")
	// ErrRefusal says that the model refused: with its stop reason, or with a
	// text of fewer than 200 tokens that begins like "I'm sorry, but I can't
	// help" in one of thirteen languages.
	ErrRefusal = errors.New("the model refused to write a summary")
	// ErrNoHistory says that the model found nothing to summarise: with a text
	// of fewer than 64 tokens that begins like "No prior history" or "Please
	// provide the conversation", or says that this was left out.
	ErrNoHistory = errors.New("the model says that there is nothing to summarise")
	// ErrFault says that the text reports a failure: a page, a JSON object with
	// an error and at most two other fields, or fewer than 64 tokens that begin
	// like "Error: 500" or "Failed to generate".
	ErrFault = errors.New("the text is the message of a failure")
	// ErrSkeleton says that the summary has headings and nothing below them, or
	// words like "None" and "N/A".
	ErrSkeleton = errors.New("the summary has headings without content")
	// ErrEcho says that the text repeats what was to be summarised: it begins with
	// a mark of a [Document] or of the prompt, or has at least 400 runes, and of
	// its letters more than three quarters are found in the conversation; or, of
	// any length, more than a fifth in the instructions. Only runs of 64 bytes
	// and more count, without regard to case, digits, marks and white space.
	ErrEcho = errors.New("the summary repeats what it was to stand for")
	// ErrLoop says that the text goes round in circles: it has at least 200 runes
	// without white space, and of its runs of 16 fewer than a fifth are
	// different.
	ErrLoop = errors.New("the summary says the same again and again")
	// ErrCut says that the output limit or the window ended the answer.
	ErrCut = errors.New("the summary was cut")
	// ErrToolCall says that the model called a tool, be it in a text that begins
	// with a tag like <tool_call> or is a JSON object with a name and arguments
	// and at most one other field.
	ErrToolCall = errors.New("the model called a tool")
	// ErrIncomplete says that the answer was aborted, failed or paused.
	ErrIncomplete = errors.New("the summary is not complete")
)

// The numbers of the rules above, in tokens.
const (
	longAnyway  = 256
	longRefusal = 200
	longPhrase  = 64
	longInput   = 4_000
	enough      = 40  // whatever the summary stands for
	density     = 200 // tokens that one stands for
)

// refuse says why a text is no summary of an input; nil if it may be one. It is
// too long by the tokens that were allowed, if these are not 0. Its rules are
// about how a text begins, its size and its form. None looks for words in the
// middle of a text: what a history is about may be anything.
func refuse(text string, allowed int, input func() int) error {
	if blank(text) {
		return ErrEmpty
	}
	size := textSize(text)
	start := opening(text)
	switch {
	case acknowledged.Get().MatchString(start), size < longPhrase && goesOn.Get().MatchString(start):
		return fmt.Errorf("%w: it is %q", ErrTooShort, oneLine(strings.TrimSpace(text), 80))
	case size < longRefusal && refused.Get().MatchString(start):
		return fmt.Errorf("%w: %q", ErrRefusal, oneLine(text, 80))
	case size < longPhrase && notFound.Get().MatchString(start):
		return fmt.Errorf("%w: %q", ErrNoHistory, oneLine(text, 80))
	case page.Get().MatchString(text), size < longPhrase && fault.Get().MatchString(start), hasFields(text, "error"):
		return fmt.Errorf("%w: %q", ErrFault, oneLine(text, 80))
	case toolTag.Get().MatchString(text), hasFields(text, "name", "arguments"), hasFields(text, "name", "input"):
		return fmt.Errorf("%w: %q", ErrToolCall, oneLine(text, 80))
	case isSkeleton(text):
		return ErrSkeleton
	case allowed > 0 && size > max(2*allowed, longAnyway):
		return fmt.Errorf("%w: ~%d tokens, %d were asked for", ErrTooLong, size, allowed)
	}
	if size < enough {
		if n := input(); n >= longInput && size < n/density {
			return fmt.Errorf("%w: ~%d tokens for ~%d", ErrTooShort, size, n)
		}
	}
	return nil
}

// refuse says why a text is no summary of the input.
func (in Input) refuse(text string) error {
	if isExtract(text) {
		return nil
	}
	shown := Document{}.Text(in.Messages)
	return cmp.Or(
		refuse(text, in.MaxTokens, func() int { return textSize(in.Previous) + textSize(shown) }),
		refuseRepeated(text, shown),
	)
}

// textSize is the size of a text alone by estimate.
func textSize(s string) int {
	e := tokens.Estimator{}
	return countText(e, s) - countText(e, "")
}

var (
	reasoning = lazy.New(`(?is)^\s*<(think|thinking)>.*?(</(think|thinking)>|$)`)
	toolTag   = lazy.New(`(?i)^[\s\x60]*(xml\s+|json\s+)?<(antml:)?(tool_calls?|function_calls?|tool_use|invoke|function=)\b`)
	page      = lazy.New(`(?i)^\s*<(!doctype html|html)\b`)
)

// withoutReasoning takes out the reasoning that a text begins with.
func withoutReasoning(text string) string {
	return strings.TrimSpace(reasoning.Get().ReplaceAllString(text, ""))
}

// hasFields reports whether a text is a JSON object with these fields and hardly
// any others.
func hasFields(text string, names ...string) bool {
	text = strings.Trim(strings.TrimSpace(text), "`")
	text = strings.TrimPrefix(text, "json")
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil || len(object) > 3 {
		return false
	}
	for _, name := range names {
		if v := object[name]; v == nil || string(v) == "null" {
			return false
		}
	}
	return true
}

var (
	placeholder = lazy.New(`(?i)^(n/?a|nil|null|tbd|todo|unknown|nothing|empty|pending|无|нет|keine|none( \w+){0,3}|` +
		`(no|not) (items|entries|data|information|content|decisions|constraints|tasks|requests|questions|issues|steps|history|context|specified|available|applicable|mentioned|provided|discussed|recorded|yet)[^.]{0,40}|` +
		`no [^.]{1,40} (has|have|was|were) (been )?(stated|given|specified|mentioned|provided|done|made|recorded|discussed|identified)( yet| so far)?|` +
		`(wait|waiting|await|awaiting) (for )?(the )?(user|further|more|new|input|instructions)\b[^.]{0,40}|` +
		`nothing (yet|so far|to report|specified|mentioned)|\[[^\]]*\]|\([^)]*\)|<[^>]*>)\W*$`)

	labelled = lazy.New(`^[^:：]{1,60}[:：]\s*`)
	numbered = lazy.New(`^(\d+[.)]|\[[ xX]?\])(\s+|$)`)
)

// isSkeleton reports whether a text has headings and nothing below them. A row
// of a table is a heading with what its other cells have below it.
func isSkeleton(text string) bool {
	heads := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		head := strings.HasPrefix(line, "#")
		if label, rest, ok := strings.Cut(strings.Trim(line, "| "), "|"); ok && strings.HasPrefix(line, "|") {
			if line = strings.TrimSpace(label); !blank(strings.Trim(line, "-: ")) {
				line += ": "
			}
			line += strings.Trim(strings.ReplaceAll(rest, "|", " "), "-: ")
		}
		line = strings.TrimLeft(line, "-*•+>_#= \t")
		line = strings.TrimRight(line, "*_-= \t")
		line = numbered.Get().ReplaceAllString(line, "")
		if blank(line) {
			continue
		}
		rest := line
		if l := labelled.Get().FindString(line); l != "" {
			rest = strings.TrimLeft(line[len(l):], "*_ ")
			if rest == "" || placeholder.Get().MatchString(rest) {
				heads++
				continue
			}
		}
		switch {
		case head:
			heads++
		case !placeholder.Get().MatchString(rest):
			return false
		}
	}
	return heads > 0
}
