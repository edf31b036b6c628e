package guard

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Classify reports whether err refuses a request that is too large, which part
// was too large, and the sizes in the error. It needs no SDK: it searches every
// error of err's tree for a status, a code or type, a message and a JSON body,
// in the methods, exported fields and texts where errors have them. A nil error
// is [NotOverflow].
//
// A wrapped error decides before its wrappers, which count only if it is inconclusive.
// Codes decide before words, and refusals before matches: cancellation, rate limits,
// quotas, expired tokens, output caps and limits on a single field are not overflows
// although they mention contexts, tokens and lengths. An error that no rule knows is
// [NotOverflow].
//
// The sizes decide between [Tokens] and [TokensPlusOutput]. Without sizes the
// words do, and Tokens stands if they do not either.
//
// Classify reads the texts of err, so err must not be made of words of a user
// or a model. It never panics on its own account, changes nothing and is safe
// for several goroutines.
func Classify(err error) Overflow { return (*Guard)(nil).Classify(err) }

// Classify is the package's [Classify] with the patterns of g, which come
// before every rule but those for a cancellation and a timeout; the first that
// knows the error decides.
func (g *Guard) Classify(err error) Overflow {
	_, o := g.evidence(err)
	return o
}

func (g *Guard) evidence(err error) (evidence, Overflow) {
	w := walk{left: maxErrors}
	if g != nil {
		w.patterns = g.Patterns
	}
	ev, o := w.chain(err)
	if w.stopped != "" {
		o = Overflow{Rule: w.stopped}
	}
	return ev, o
}

// A Pattern is a rule that an application adds to [Classify] by [Guard].Patterns,
// for a provider or a gateway with words of its own.
type Pattern struct {
	// Name is the Rule of what the pattern decides.
	Name string
	// Refused is the Refused of what the pattern decides, if that is a [Part].
	Refused string
	// Match judges the evidence of an error: the HTTP status or 0; its types
	// and codes in lower case; its texts, one per line, without the JSON around
	// them. It returns the part that was too large, or [NotOverflow] for an
	// error that must be returned untouched; ok is false if the pattern does
	// not apply. Sizes are read from the texts by the rules of Classify.
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

// Names of rules that the code asks for, and of the sizes that take more care.
const (
	none       = "none"
	rateLimit  = "rate_limit"
	planWindow = "plan_window"
	manySides  = "many_sides"
	tokenSizes = "tokens"
)

// maxErrors bounds the errors examined in a tree, in case that one wraps
// itself.
const maxErrors = 100

// walk is one pass over a tree of errors.
type walk struct {
	patterns []Pattern
	left     int
	stopped  string // the rule of a cancellation or a timeout, or ""
}

// chain classifies err and the errors it wraps. The innermost error decides,
// its wrappers only if it is inconclusive. Of several that are wrapped together
// an overflow decides, or else the first refusal.
func (w *walk) chain(err error) (ev evidence, o Overflow) {
	o.Rule = none
	if v := reflect.ValueOf(err); w.left <= 0 || err == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return ev, o // a method would meet its nil receiver
	}
	w.left--
	w.look(err)
	switch e := err.(type) { //nolint:errorlint // this is the walk itself
	case interface{ Unwrap() error }:
		ev, o = w.chain(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			_, branch := w.chain(err)
			if o.Rule == none || o.Kind == NotOverflow && branch.Kind != NotOverflow {
				o = branch
			}
		}
	}
	if o.Rule == none {
		said := ev.said
		ev.addError(err)
		if said == 0 || said < ev.said { // else no rule can add anything
			o = ev.decide(w.patterns)
		}
	}
	return ev, o
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

func (ev *evidence) decide(patterns []Pattern) Overflow {
	for _, t := range ev.texts {
		if m := find("status").FindStringSubmatch(t); m != nil {
			n, _ := strconv.Atoi(strings.Join(m[1:], "")) // one of them has matched
			ev.addStatus(n)
		}
	}
	text := strings.Join(ev.texts, "\n")
	for _, p := range patterns {
		if p.Match == nil {
			continue
		}
		if k, ok := p.Match(ev.status, slices.Clone(ev.codes), text); ok {
			return ev.found(k, p.Refused, cmp.Or(p.Name, "pattern"))
		}
	}
	var signs []string
	for _, c := range ev.codes {
		signs = append(signs, "code "+c[strings.LastIndexByte(c, '#')+1:]) // after a namespace of AWS
	}
	signs = append(signs, "status "+strconv.Itoa(ev.status))
	text = strings.ToLower(text)
	for _, r := range known().rules {
		switch name, ok := r.decides(signs, text); {
		case !ok:
		case name == rateLimit:
			return ev.rateLimited(text)
		default:
			return ev.found(r.kind, r.refused, name)
		}
	}
	return Overflow{Rule: none}
}

// rateLimited tells a request that no wait will let through from one that has
// to wait.
func (ev *evidence) rateLimited(text string) Overflow {
	o := ev.found(RateLimit, "", "single_request")
	single := o.Prompt > o.Limit
	if o.Prompt == 0 || o.Limit == 0 {
		single = find("single_request").MatchString(text)
	}
	if !single {
		return Overflow{Rule: rateLimit}
	}
	return o
}

// sizeSorts are the sorts of sizes that errors of a kind, or about a part, name.
var sizeSorts = map[string]string{
	string(Tokens): tokenSizes, string(TokensPlusOutput): tokenSizes, string(Bytes): "bytes", string(RateLimit): "allowance",
	string(Messages): "count", "count": "count", "side": "side", "size": "bytes", "text": "bytes",
}

// found adds sizes to the result of a rule, and lets them correct it.
func (ev *evidence) found(k Kind, refused, rule string) Overflow {
	o := Overflow{Kind: k, Rule: rule}
	if k == Part {
		o.Refused, o.Path = refused, ev.place()
	}
	sort := sizeSorts[cmp.Or(o.Refused, string(k))]
	if sort == "" {
		return o
	}
	// One text is read after the other, as the same sentence may be in several.
	f := ev.sizes
	for _, t := range ev.texts {
		f.merge(readFigures(sort, t))
	}
	if k == Tokens && rule != planWindow { // which names the windows of other plans
		for _, t := range ev.texts {
			f.compare(t)
		}
	}
	o.Prompt, o.Limit, o.Output, o.AtLeast = f.prompt, f.limit, f.output, f.atLeast
	switch {
	case sort != tokenSizes || f.prompt == 0 || f.limit == 0:
	case f.prompt > f.limit:
		o.Kind = Tokens
	case f.output > 0:
		o.Kind = TokensPlusOutput
	}
	return o
}
