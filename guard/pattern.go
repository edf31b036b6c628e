package guard

import (
	"cmp"
	"strings"
)

// A Pattern is a rule that an application adds to [Classify] by [Guard].Patterns,
// for a provider or a gateway whose words nobody else knows.
type Pattern struct {
	// Name is the Rule of what the pattern decides.
	Name string
	// Match looks at what an error says: the HTTP status, 0 if it has none; its
	// types and codes in lower case; its texts, one a line, without the JSON
	// around them. It returns what was too large, or [NotOverflow] for an error
	// that must be returned untouched; ok is false if the pattern does not know
	// the error. Sizes are read from the texts by the rules of Classify.
	Match func(status int, codes []string, text string) (k Kind, ok bool)
}

// EmptyBody is a pattern for services that refuse a prompt that is too long
// with the status 400 or 413 and not a word, as some of Cerebras do. Everywhere
// else such an answer means anything, so use it in guards of their models alone.
// Where the window is known [Do] believes it only of prompts that take most of
// it, by estimate.
func EmptyBody() Pattern {
	return Pattern{Name: emptyBody, Match: func(status int, codes []string, text string) (Kind, bool) {
		says := cmp.Or(strings.TrimSpace(text), strings.Join(codes, " "))
		return Tokens, (status == 400 || status == 413) && (says == "" || find("no_body").MatchString(says))
	}}
}

const emptyBody = "empty body"

// Classify is the package's [Classify] with the patterns of g, which come
// before every rule but those for a cancellation and a timeout; the first that
// knows the error decides.
func (g *Guard) Classify(err error) Overflow {
	w := walk{left: maxErrors}
	if g != nil {
		w.patterns = g.Patterns
	}
	_, o := w.chain(err)
	if w.stopped != "" {
		return Overflow{Rule: w.stopped}
	}
	return o
}
