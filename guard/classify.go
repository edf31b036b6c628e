package guard

import (
	"context"
	"reflect"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// Classify says whether err is the refusal of a request that is too large,
// what was too large, and the sizes that the error names. It needs no SDK: it
// looks at every error of err's tree for a status, a code or type, a message
// and a JSON body, in the methods, exported fields and texts where errors have
// them. A nil error is [NotOverflow].
//
// Codes decide before words, and refusals before matches: cancellation, rate
// limits, quotas, expired tokens, output caps and limits on a single field are
// not overflows though they speak of contexts, tokens and lengths. An error
// that no rule knows is [NotOverflow].
//
// The sizes decide between [Tokens] and [TokensPlusOutput]. Without sizes the
// words do, and Tokens stands if they do not either.
//
// Classify reads what an err says, so err must not be made of what a user or a
// model wrote. It never panics on its own account, changes nothing and is safe
// for several goroutines.
func Classify(err error) Overflow { return (*Guard)(nil).Classify(err) }

// Names of rules that the code asks for.
const (
	none      = "none"
	rateLimit = "rate_limit"
)

// maxErrors bounds the errors of a tree that are looked at, in case that one
// wraps itself.
const maxErrors = 100

// walk is one pass over a tree of errors.
type walk struct {
	patterns []Pattern
	left     int
	stopped  string // the rule of a cancellation or a timeout, or ""
}

// chain classifies err and what it wraps. One that wraps several is what its
// branches are: an overflow if one of them is, or else the first refusal.
func (w *walk) chain(err error) Overflow {
	var ev evidence
	for w.left > 0 && !isNil(reflect.ValueOf(err)) {
		w.left--
		w.look(err)
		ev.addError(err)
		switch e := err.(type) { //nolint:errorlint // this is the walk itself
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			if o := w.branches(e.Unwrap()); o.Rule != none {
				return o
			}
			return ev.decide(w.patterns)
		default:
			return ev.decide(w.patterns)
		}
	}
	return ev.decide(w.patterns)
}

func (w *walk) branches(errs []error) Overflow {
	res := Overflow{Rule: none}
	for _, err := range errs {
		if w.left <= 0 {
			break
		}
		o := w.chain(err)
		if res.Rule == none || res.Kind == NotOverflow && o.Kind != NotOverflow {
			res = o
		}
	}
	return res
}

// look notes a cancellation or a timeout, which decide wherever they are.
func (w *walk) look(err error) {
	is := func(target error) bool {
		//nolint:errorlint // errors.Is would walk the tree again
		if err == target {
			return true
		}
		e, ok := err.(interface{ Is(error) bool })
		return ok && e.Is(target)
	}
	timeout, ok := err.(interface{ Timeout() bool })
	switch {
	case is(context.Canceled):
		w.stopped = "canceled"
	case is(context.DeadlineExceeded), ok && timeout.Timeout():
		w.stopped = "timeout"
	}
}

// decide applies the rules in their order.
func (ev *evidence) decide(patterns []Pattern) Overflow {
	ev.statusOfTexts()
	text := strings.Join(ev.texts, "\n")
	if o, ok := ev.applied(patterns, text); ok {
		return o
	}

	for _, c := range ev.codes {
		if k, ok := overflowCodes[c]; ok {
			return ev.found(k, "code "+c)
		}
		if c == minimaxTokens && tokenLimit.Get().MatchString(text) {
			return ev.found(Tokens, "code "+c)
		}
	}
	if o := ev.refusal(); o.Rule != none {
		return o
	}
	for _, rules := range [][]textRule{reasoning, refusals, overflows} {
		for i := range rules {
			switch r := &rules[i]; {
			case !r.matches(text):
			case r.name == rateLimit:
				return ev.rateLimited()
			default:
				return ev.found(r.kind, r.name)
			}
		}
	}
	for _, c := range ev.codes {
		if bodyCodes[c] {
			return ev.found(Bytes, "code "+c)
		}
	}
	switch ev.status {
	case 413:
		return ev.found(Bytes, "status 413")
	case 401, 403:
		return Overflow{Rule: "auth"}
	}
	return Overflow{Rule: none}
}

// refusal looks for a code or a status that is never an overflow.
func (ev *evidence) refusal() Overflow {
	for _, c := range ev.codes {
		if _, after, ok := strings.Cut(c, "#"); ok {
			c = after // behind a namespace of AWS
		}
		switch rule := refusedCodes[c]; rule {
		case "":
		case rateLimit:
			return ev.rateLimited()
		default:
			return Overflow{Rule: rule}
		}
	}
	switch ev.status {
	case 429, 529:
		return ev.rateLimited()
	case 402:
		return Overflow{Rule: "quota"}
	}
	return Overflow{Rule: none}
}

// rateLimited tells a request that no wait will let through from one that has
// to wait.
func (ev *evidence) rateLimited() Overflow {
	f := ev.figures(&allowances)
	if f.prompt > 0 && f.limit > 0 {
		if f.prompt > f.limit {
			return Overflow{Kind: RateLimit, Prompt: f.prompt, Limit: f.limit, Rule: "single_request"}
		}
		return Overflow{Rule: rateLimit}
	}
	if singleRequest.Get().MatchString(strings.Join(ev.texts, "\n")) {
		return Overflow{Kind: RateLimit, Limit: f.limit, Rule: "single_request"}
	}
	return Overflow{Rule: rateLimit}
}

// found adds the sizes to what a rule has found, and lets them correct it.
func (ev *evidence) found(k Kind, rule string) Overflow {
	o := Overflow{Kind: k, Rule: rule}
	var f figures
	switch k {
	case Tokens, TokensPlusOutput:
		f = ev.figures(&tokenSizes)
		for _, t := range ev.texts {
			if k == Tokens {
				f.compare(t)
			}
		}
	case Bytes, Item:
		f = ev.figures(&byteSizes)
	default:
		return o
	}
	o.Prompt, o.Limit, o.Output, o.AtLeast = f.prompt, f.limit, f.output, f.atLeast
	if k == Item {
		o.Path = itemPath.Get().FindString(strings.Join(ev.texts, "\n"))
	}
	if k != Tokens && k != TokensPlusOutput || f.prompt == 0 || f.limit == 0 {
		return o
	}
	switch {
	case f.prompt > f.limit:
		o.Kind = Tokens
	case f.output > 0:
		o.Kind = TokensPlusOutput
	}
	return o
}

// itemPath is how errors write where in a request an item is.
var itemPath = lazy.New(`\b(?:messages|contents|input)(?:\.\d+|\[\d+\])(?:\.(?:content|parts|output|tool_result|toolResult)(?:\.\d+|\[\d+\])?)*`)

// figures reads the sizes of all texts. One text is read after the other, as
// the same sentence may be in several.
func (ev *evidence) figures(g *grammar) figures {
	f := ev.sizes
	for _, t := range ev.texts {
		f.merge(g.find(t))
	}
	return f
}
