package compact

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript/tokens"
)

// Errors of summaries that are refused. [Run] refuses whatever its summarizer
// wrote, [Model] what a model wrote, and [Either] what each of its summarizers
// wrote. Sizes of texts are those of [tokens.Estimator]. A text by
// [Extractive] is refused only if it is not smaller.
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
	// ErrTooShort says that the summary says nothing: it stands for n tokens and
	// has fewer than n/50, of which 40 are always enough. For fewer than 1,000
	// tokens n/100 suffice.
	ErrTooShort = errors.New("the summary is too short")
	// ErrRefusal says that the model refused, as its stop reason shows. The text
	// of a refusal may be in any language and is mostly too short.
	ErrRefusal = errors.New("the model refused to write a summary")
	// ErrEcho says that the text repeats what was to be summarised: it begins with
	// a mark of a [Document] or of the prompt, or has at least 400 runes, and of
	// its letters and digits more than three quarters are pieces of the conversation, of 256
	// bytes and more; or, of any length, more than a fifth are pieces of the
	// instructions, of 64 bytes and more. Case, marks and white space do not
	// matter.
	ErrEcho = errors.New("the summary repeats what it was to stand for")
	// ErrLoop says that the text goes round in circles: it has at least 200 bytes
	// without white space, and of its runs of 64 bytes fewer than a fifth are
	// different.
	ErrLoop = errors.New("the summary says the same again and again")
	// ErrCut says that the output limit or the window ended the answer.
	ErrCut = errors.New("the summary was cut")
	// ErrToolCall says that the model called a tool, be it in a text that begins
	// with a tag like <tool_call>.
	ErrToolCall = errors.New("the model called a tool")
	// ErrIncomplete says that the answer was aborted, failed or paused.
	ErrIncomplete = errors.New("the summary is not complete")
)

// The numbers of the rules above, in tokens.
const (
	longAnyway = 256
	enough     = 40 // whatever the summary stands for
	density    = 50 // tokens that one stands for
	longInput  = 1_000
	dense      = 100 // density of an input that is no long one
)

// refuse says why a text is no summary of what was shown and of the summary
// before; nil if it may be one. It is too long by the tokens that were allowed,
// if these are not 0. Its rules are about size and form. None looks for words: a
// summary may be in any language, and about anything.
func refuse(text, shown, before string, allowed int) error {
	size := tokens.Estimator{}.Text(text)
	switch {
	case blank(text):
		return ErrEmpty
	case toolTag.Get().MatchString(text):
		return fmt.Errorf("%w: %q", ErrToolCall, oneLine(text, 80))
	case allowed > 0 && size > max(2*allowed, longAnyway):
		return fmt.Errorf("%w: ~%d tokens, %d were asked for", ErrTooLong, size, allowed)
	case isEcho(text, shown):
		return ErrEcho
	case isLoop(text):
		return fmt.Errorf("%w: %q", ErrLoop, oneLine(text, 80))
	case size >= enough:
		return nil
	}
	n := tokens.Estimator{}.Text(before) + tokens.Estimator{}.Text(shown)
	if size < n/dense || n >= longInput && size < n/density {
		return fmt.Errorf("%w: ~%d tokens for ~%d: %q", ErrTooShort, size, n, oneLine(text, 80))
	}
	return nil
}

// refuse says why a text is no summary of the input.
func (in Input) refuse(text string) error {
	if in.extract != nil && text == *in.extract && text != "" {
		return nil
	}
	return refuse(text, Document{}.Text(in.Messages), in.Previous, in.MaxTokens)
}

var (
	reasoning = lazy.New(`(?is)^\s*<(think|thinking)>.*?(</(think|thinking)>|$)`)
	toolTag   = lazy.New(`(?i)^[\s\x60]*(xml\s+|json\s+)?<(antml:)?(tool_calls?|function_calls?|tool_use|invoke|function=)\b`)
)

// blank reports whether a text has nothing that can be seen.
func blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

// withoutReasoning takes out the reasoning that a text begins with.
func withoutReasoning(text string) string {
	return strings.TrimSpace(reasoning.Get().ReplaceAllString(text, ""))
}
