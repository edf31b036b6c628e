package compact

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/convolog/convolog/transcript/tokens"
)

// Errors of summaries that are refused. [Run] refuses whatever its summarizer
// wrote, [Model] what a model wrote, and [Either] what any but the last of its
// summarizers wrote. Sizes of texts are those of [tokens.Estimator].
var (
	// ErrEmpty says that the summary has nothing that can be seen.
	ErrEmpty = errors.New("the summary is empty")
	// ErrNotSmaller says that the summary is not smaller than what it stands
	// for, or that the history would be smaller by less than 10 % and less than
	// 2,000 tokens. Where little is summarised, a quarter of that suffices.
	ErrNotSmaller = errors.New("the summary is not smaller than what it stands for")
	// ErrTooLong says that the summary has more than twice the tokens that were
	// asked for, and more than 256.
	ErrTooLong = errors.New("the summary is too long")
	// ErrTooShort says that the summary says nothing: it is a word like "OK" or
	// "Done", or it has fewer than 5 tokens and stands for 16,000 or more; 4,000
	// are enough if it is of a Model, or if Either can ask another summarizer.
	ErrTooShort = errors.New("the summary is too short")
	// ErrRefusal says that the model refused: with its stop reason, or with a
	// text of fewer than 200 tokens that begins like "I'm sorry, but" or
	// "I can't help with".
	ErrRefusal = errors.New("the model refused to write a summary")
	// ErrNoHistory says that the model found nothing to summarise: with a text
	// of fewer than 64 tokens that begins like "No prior history" or "Please
	// provide the conversation".
	ErrNoHistory = errors.New("the model says that there is nothing to summarise")
	// ErrSkeleton says that the summary has headings and nothing below them, or
	// words like "None" and "N/A".
	ErrSkeleton = errors.New("the summary has headings without content")
	// ErrEcho says that the model has repeated what it was given: the text
	// begins with a mark of a [Document], has one of the prompt, or has at least
	// 400 runes of which more than half are found in the conversation word for
	// word, or a fifth in the instructions, in runs of 64 runes and more.
	ErrEcho = errors.New("the model repeated what it was given")
	// ErrCut says that the output limit or the window ended the answer.
	ErrCut = errors.New("the summary was cut")
	// ErrToolCall says that the model called a tool.
	ErrToolCall = errors.New("the model called a tool")
	// ErrIncomplete says that the answer was aborted, failed or paused.
	ErrIncomplete = errors.New("the summary is not complete")
)

// The numbers of the rules above, in tokens.
const (
	longAnyway   = 256
	shortAnyway  = 5
	longInput    = 16_000
	longShown    = 4_000
	longRefusal  = 200
	longNotFound = 64
)

// refuse says why a text is no summary of an input; nil if it may be one. It is
// too long by the tokens that were allowed, if these are not 0, and too short for
// an input of so many as are long. No rule looks for words in the middle of a
// text: what a history is about may be anything.
func refuse(text string, allowed, long int, input func() int) error {
	if blank(text) {
		return ErrEmpty
	}
	size := textSize(text)
	start := opening(text)
	switch {
	case acknowledged.MatchString(start):
		return fmt.Errorf("%w: it is %q", ErrTooShort, strings.TrimSpace(text))
	case size < longRefusal && refused.MatchString(start):
		return fmt.Errorf("%w: %q", ErrRefusal, oneLine(text, 80))
	case size < longNotFound && notFound.MatchString(start):
		return fmt.Errorf("%w: %q", ErrNoHistory, oneLine(text, 80))
	case isSkeleton(text):
		return ErrSkeleton
	case allowed > 0 && size > max(2*allowed, longAnyway):
		return fmt.Errorf("%w: ~%d tokens, %d were asked for", ErrTooLong, size, allowed)
	}
	if size < shortAnyway {
		if n := input(); n >= long {
			return fmt.Errorf("%w: ~%d tokens for ~%d", ErrTooShort, size, n)
		}
	}
	return nil
}

// refuse says why a text is no summary of the input.
func (in Input) refuse(text string, long int) error {
	return refuse(text, in.MaxTokens, long, func() int {
		return textSize(in.Previous) + textSize(Document{}.Text(in.Messages))
	})
}

// textSize is the size of a text alone by estimate.
func textSize(s string) int {
	e := tokens.Estimator{}
	return countText(e, s) - countText(e, "")
}

// opening is how a text begins: lower case, without marks and headings around
// it, with one kind of apostrophe.
func opening(s string) string {
	s = strings.ToLower(s[:runeStart(s, min(len(s), 600))])
	s = strings.ReplaceAll(s, "’", "'")
	s = strings.Join(strings.Fields(s), " ")
	for {
		short := strings.TrimLeft(s, "#*_`\"'>-“”«[( ")
		short = strings.TrimPrefix(short, "summary:")
		short = strings.TrimPrefix(short, "summary**")
		if short == s {
			return s
		}
		s = short
	}
}

var (
	acknowledged = regexp.MustCompile(`^(ok|okay|done|understood|sure|yes|no|noted|got it|acknowledged|certainly|of course|summary|none|null|nil|n/a|好的?|明白了?|хорошо|готово)[\W_]*$`)

	refused = regexp.MustCompile(`^(i'm|i am) (very |so |really )?sorry[,.]? (but )?(i|this|that|we|as)\b|` +
		`^sorry[,.]? (but )?(i|this|that|we)\b|` +
		`^(i|we) (can't|cannot|can not|won't|will not|must decline|(am|'m) (unable|not able) to|'m not able to|do not feel comfortable|don't feel comfortable)\b` +
		`( (help|assist|provide|summari[sz]e|comply|fulfil|do (this|that)|create|write|produce|generate|process|continue|support|engage|discuss)\b|[.,]| to\b| summari[sz]ing|$)|` +
		`^i'm (unable|not able) to (help|assist|provide|summari[sz]e|comply|fulfil|create|write|produce|generate|process|continue)\b|` +
		`^i (must|have to) (decline|refuse)\b|` +
		`^(unfortunately|regrettably),? (i|we) (can't|cannot|can not|am unable|'m unable)\b|` +
		`^i apologi[sz]e,? but\b|^as an? (ai|artificial|large|language)\b|^my apologies,? but\b|` +
		`^(很抱歉|非常抱歉|抱歉[，,]|对不起[，,]|对不起我|我无法(提供|帮|协助|总结)|申し訳(ありません|ございません)|죄송(합니다|하지만)|извините,? но|к сожалению,? я не (могу|в состоянии)|` +
		`es tut mir leid,? (aber|ich)|tut mir leid,? (aber|ich)|leider kann ich|lo siento,? pero|je suis désolée?,? mais|désolée?,? (mais )?je|desculpe,? mas|mi dispiace,? ma)`)

	notFound = regexp.MustCompile(`^((it (seems|looks like|appears)|i'm afraid|i notice)( that)? )?` +
		`((there (is|are|was|were) (no|nothing)|there (isn't|aren't|wasn't) any) ?((prior|previous|earlier|actual) )?(conversation|chat|history|messages?|transcript|content|context|text)?( history)?( here)? ?(to summari|was|were|provided|available|here|yet|so far|\W*$)|` +
		`no (prior|previous|earlier) (history|conversation|messages?|context|summary)\W*$|no (prior|previous|earlier) (history|conversation|messages?|context) (to|was|is|were|available|provided|found|exists)|` +
		`no (conversation|chat|history|messages|transcript|content)( history)? (to summari|was|were|is|provided|available|found|yet|\W*$)|` +
		`(there is |i have |i see )?nothing (to|here to|available to|was (provided|given) to) summari|` +
		`the (conversation|history|transcript|chat)( history)? (is|was|appears|seems)( to be)? (empty|blank|missing)|` +
		`(a |the )?summary (is |was )?(unavailable|not available)|no summary\b|` +
		`(please|could you|can you|kindly)( please)? (provide|share|paste|send|give)|(i|you) (don't|do not|didn't|did not|haven't|have not) (see|have|find|provided?|given|shared?|included?) (any|access|a |the )|` +
		`i('ve| have) summari[sz]ed|the conversation (has been|was) summari[sz]ed|没有(任何)?(可|需要|对话|历史|内容)|нет (предыдущей )?(истории|сообщений))`)

	placeholder = regexp.MustCompile(`(?i)^(none|n/?a|nil|null|tbd|todo|unknown|nothing|empty|pending|无|нет|keine|` +
		`(no|not) (items|entries|data|information|content|decisions|constraints|tasks|requests|questions|issues|steps|history|context|specified|available|applicable|mentioned|provided|discussed|recorded|yet)[^.]{0,40}|` +
		`nothing (yet|so far|to report|specified|mentioned)|\[[^\]]*\]|\([^)]*\)|<[^>]*>)\W*$`)

	labelled = regexp.MustCompile(`^[^:：]{1,60}[:：]\s*`)
)

// isSkeleton reports whether a text has headings and nothing below them.
func isSkeleton(text string) bool {
	heads := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		head := strings.HasPrefix(line, "#")
		line = strings.TrimLeft(line, "-*•+>_#= \t")
		line = strings.TrimRight(line, "*_-= \t")
		if blank(line) {
			continue
		}
		rest := line
		if l := labelled.FindString(line); l != "" {
			rest = strings.TrimLeft(line[len(l):], "*_ ")
			if rest == "" || placeholder.MatchString(rest) {
				heads++
				continue
			}
		}
		switch {
		case head:
			heads++
		case !placeholder.MatchString(rest):
			return false
		}
	}
	return heads > 0
}
