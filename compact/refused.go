package compact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript/tokens"
)

// ErrRefused reports that a text cannot be a summary. [Run] judges its summarizer,
// [Model] its model, and [Either] each of its summarizers. [tokens.Estimator] counts
// the sizes of texts. A text by [Extractive] is not refused. The error text names
// the case:
//
//   - The summary is empty: it contains no visible text, or only reasoning
//     between <think> tags. Reasoning before a summary is removed.
//   - The summary is too long: it exceeds twice the requested tokens, and 256.
//   - The summary is too short: it replaces n tokens and has fewer than n/50; 40
//     tokens are always enough. If n is below 1,000, n/100 suffice. 8 tokens suffice
//     with words of the conversation: a path or other identifier, a word of five
//     letters that recurs there, or two such words, names, numbers or pairs of
//     ideographs that occur there at all. So a summary in another language suffices
//     if it keeps two names or numbers.
//   - The model refused to write a summary, as its stop reason shows. The text of
//     a refusal may be in any language and is mostly too short.
//   - The summary repeats the conversation: it begins with a mark of a
//     [Document] or the prompt; or has at least 400 runes, and more than three
//     quarters of its letters and digits are in pieces of the conversation of
//     256 bytes or more; or, at any length, more than a fifth are in pieces of
//     the instructions of 64 bytes or more. Case, marks and white space do not
//     matter.
//   - The summary says the same again and again: it has at least 200 bytes without
//     white space, and fewer than a fifth of its runs of 64 bytes are distinct.
//   - The summary was cut by the output limit or the window.
//   - The model called a tool, or wrote a text that begins with a tag like
//     <tool_call>.
//   - The summary is not complete: the answer was aborted, failed or paused.
//
// Form cannot expose an answer to the last question, an invented text, or half
// of a summary. A refusal in words of the conversation passes, and so does any
// refusal of 40 tokens.
var ErrRefused = errors.New("the text is not a summary")

// ErrNotSmaller reports that the summary is not smaller than the messages it replaces, or
// that the history would shrink by less than 10 % and less than 2,000 tokens. If little is
// summarised, a quarter of that suffices.
var ErrNotSmaller = errors.New("the summary is not smaller than the messages it replaces")

// A refusal is a reason of [ErrRefused].
type refusal string

const (
	errEmpty      refusal = "the summary is empty"
	errTooLong    refusal = "the summary is too long"
	errTooShort   refusal = "the summary is too short"
	errRefusal    refusal = "the model refused to write a summary"
	errEcho       refusal = "the summary repeats the conversation"
	errLoop       refusal = "the summary says the same again and again"
	errCut        refusal = "the summary was cut"
	errToolCall   refusal = "the model called a tool"
	errIncomplete refusal = "the summary is not complete"
)

func (r refusal) Error() string { return string(r) }

func (refusal) Is(target error) bool { return target == ErrRefused }

// The numbers of the rules above, in tokens.
const (
	longAnyway = 256
	enough     = 40 // for any summarised part
	density    = 50 // summarised tokens
	longInput  = 1_000
	dense      = 100 // the same for a shorter input

	enoughShared = 8 // with words of the conversation
)

// refuse returns an error if text cannot be a summary of the shown messages and
// the summary before. allowed is the token limit; 0 means none. Rules concern
// size and form, never words: a summary may be in any language and about
// anything.
func refuse(text, shown, before string, allowed int) error {
	size := tokens.Estimator{}.Text(text)
	switch {
	case blank(text):
		return errEmpty
	case toolTag.Get().MatchString(text):
		return fmt.Errorf("%w: %q", errToolCall, oneLine(text, 80))
	case allowed > 0 && size > max(2*allowed, longAnyway):
		return fmt.Errorf("%w: ~%d tokens, %d were requested", errTooLong, size, allowed)
	case isEcho(text, shown):
		return errEcho
	case isLoop(text):
		return fmt.Errorf("%w: %q", errLoop, oneLine(text, 80))
	case size >= enough:
		return nil
	}
	n := tokens.Estimator{}.Text(before) + tokens.Estimator{}.Text(shown)
	if few := size < n/dense || n >= longInput && size < n/density; few && (size < enoughShared || !sharesWords(text, shown, before)) {
		return fmt.Errorf("%w: ~%d tokens for ~%d: %q", errTooShort, size, n, oneLine(text, 80))
	}
	return nil
}

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

// Which parts of a text show its subject, in any language, and how often a word recurs.
const (
	tellingWord = 5   // runes; the small words of a language are shorter
	tellingRun  = 8   // runes of a script without spaces between words
	tellingName = 3   // runes
	recursEach  = 800 // words
	recursLeast = 3
)

// sharesWords reports whether a short text is about the conversation. The words of the
// instructions fit any conversation.
func sharesWords(text, shown, before string) bool {
	if slices.ContainsFunc(identifiers(text), func(id string) bool { return strings.Contains(shown, id) }) {
		return true
	}
	times, all := map[string]int{}, plainTerms(before+"\n"+extraMark.Get().ReplaceAllString(shown, ""))
	for _, term := range all {
		times[term]++
	}
	for _, term := range promptTerms() {
		delete(times, term)
	}
	shared := 0
	for _, term := range slices.Compact(slices.Sorted(slices.Values(plainTerms(text)))) {
		n, first := times[term], []rune(term)[0]
		switch length := utf8.RuneCountInString(term); {
		case n == 0:
		case first == '=':
			if lower := strings.ToLower(term); lower != term && times[lower] == 0 {
				shared++ // a name
			}
		case unicode.IsDigit(first):
			if length > 1 {
				shared++
			}
		case isIdeograph(first):
			if length > 1 && !strings.ContainsFunc(term, func(r rune) bool { return unicode.Is(unicode.Hiragana, r) }) {
				shared++
			}
		case length >= tellingWord && !unicode.In(first, unspaced...) && n >= recursLeast && n*recursEach >= len(all):
			return true
		case length >= tellingWord:
			shared++
		}
	}
	return shared > 1
}

// unspaced are the scripts without spaces between words in which a letter means little.
var unspaced = []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// plainTerms splits a text into words at all signs. Of Korean words it returns the
// beginnings, which the endings of the grammar follow, and of unspaced scripts long runs.
// Short words come again after "=", as they are written: another language keeps names.
func plainTerms(text string) (list []string) {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		runes := []rune(field)
		switch {
		case unicode.Is(unicode.Hangul, runes[0]):
			list = append(list, words.Terms(string(runes[:min(len(runes), 2)]))...)
		case unicode.In(runes[0], unspaced...):
			for i := range max(len(runes)-tellingRun+1, 0) {
				list = append(list, string(runes[i:i+tellingRun]))
			}
		default:
			list = append(list, words.Terms(field)...)
		}
		for word := range strings.FieldsFuncSeq(field, func(r rune) bool { return !unicode.IsUpper(r) && !unicode.IsLower(r) }) {
			if n := utf8.RuneCountInString(word); n >= tellingName && n < tellingWord {
				list = append(list, "="+word)
			}
		}
	}
	return list
}

func blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

// withoutReasoning removes the reasoning at the beginning of a text.
func withoutReasoning(text string) string {
	return strings.TrimSpace(reasoning.Get().ReplaceAllString(text, ""))
}

// Only runs of at least longEcho bytes of the conversation count, and of
// longTask bytes of the instructions: a summary may quote sentences of a
// conversation, but not a long piece. A text shorter than shortEcho, in runes,
// may be a quotation.
const (
	longTask  = 64
	longEcho  = 256
	shortEcho = 400
)

// firstMark is a mark of a [Document] or of the prompt at the beginning of a text.
// An echo may lack or add an extraMark: a mark of a Document anywhere, or the
// number of a list item.
var (
	firstMark = lazy.New(`^(\[` + documentMarks + `|</?(conversation|summary_so_far)>)`)
	extraMark = lazy.New(`(?m)^\s*\d{1,3}[.)] |\[` + documentMarks)
)

// The instructions as they are compared with every summary.
var (
	promptLetters = sync.OnceValue(func() string { return letters(promptTexts) })
	promptTerms   = sync.OnceValue(func() []string { return plainTerms(promptTexts) })
)

const documentMarks = `(user|assistant|tool_result|left out|earlier summary)( called [^\]]*|, error|, continued)?\]: `

// isEcho reports whether a text repeats the text to be summarised. Text kept
// from the summary so far is not an echo, so it is not compared.
func isEcho(text, shown string) bool {
	if firstMark.Get().MatchString(text) {
		return true
	}
	said := letters(text)
	if repeats(said, promptLetters(), longTask)*5 > len(said) {
		return true
	}
	return utf8.RuneCountInString(text) >= shortEcho && repeats(said, letters(shown), longEcho)*4 > len(said)*3
}

// letters returns only the letters and digits of a text, in lower case and without
// marks: a model easily adds or omits marks and line breaks.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, extraMark.Get().ReplaceAllString(strings.ToLower(s), ""))
}

// repeats counts the bytes of a text that are in runs of at least that many
// bytes found in another text.
func repeats(text, source string, least int) (n int) {
	found := map[string]bool{} // whether a run of the text is in the source
	for at := range len(text) - least + 1 {
		found[text[at:at+least]] = false
	}
	for at := range len(source) - least + 1 {
		if _, ok := found[source[at:at+least]]; ok {
			found[source[at:at+least]] = true
		}
	}
	end := 0
	for at := range len(text) - least + 1 {
		if found[text[at:at+least]] {
			n += at + least - max(at, end)
			end = at + least
		}
	}
	return n
}

// The limits of isLoop, in bytes: the length of the runs, and the shortest text.
const (
	looped    = 64
	shortLoop = 200
)

// isLoop reports whether a text goes round in circles.
func isLoop(text string) bool {
	said := strings.Join(strings.Fields(text), "")
	if len(said) < shortLoop {
		return false
	}
	runs := len(said) - looped + 1
	different := make(map[string]bool, runs)
	for at := range runs {
		different[said[at:at+looped]] = true
	}
	return len(different)*5 < runs
}
