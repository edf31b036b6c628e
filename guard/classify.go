package guard

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Classify reports whether err refuses a request as too large, which part was too
// large, and the sizes in the error. It needs no SDK. In every error of err's tree it
// looks for a status, a code or type, a message and a JSON body: in methods, exported
// fields and texts. A nil error is [NotOverflow].
//
// A wrapped error decides before its wrappers, which count only if it is inconclusive.
// Codes decide before words. Rules that exclude an overflow decide before rules that
// find one. So cancellation, rate limits, quotas, expired tokens, output caps and
// limits on a single field are not overflows, although they mention contexts, tokens
// and lengths. An error that no rule matches is [NotOverflow].
//
// The sizes decide between [Tokens] and [TokensPlusOutput]. Without sizes the words
// decide, and the default is Tokens.
//
// Classify trusts the texts of err, so err must not contain words of a user or a model.
// Classify itself never panics. It changes nothing and is safe for several goroutines.
func Classify(err error) Overflow { return (*Guard)(nil).Classify(err) }

// Classify is like the function [Classify], but tries the patterns of g first, in
// order. Only rules for a cancellation and a timeout come before them.
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

// A Pattern is a rule that an application adds to [Classify] by [Guard].Patterns, for a
// provider or a gateway with its own wording.
type Pattern struct {
	// Name is the Rule of the resulting [Overflow].
	Name string
	// Refused is the Refused of the resulting [Overflow], if Match returns [Part].
	Refused string
	// Match judges the evidence of an error: the HTTP status, or 0; the types and codes
	// in lower case; the texts, one per line, without any JSON around them. It returns
	// the part that was too large, or [NotOverflow] for an error that must be returned
	// unchanged. It returns false if the pattern does not apply. The sizes come from
	// the texts, by the rules of Classify.
	Match func(status int, codes []string, text string) (k Kind, ok bool)
}

// EmptyBody is a pattern for services that refuse a long prompt with the status 400 or
// 413 and no text, as some of Cerebras do. Elsewhere such an answer may mean anything,
// so use the pattern only in guards of their models. If the window is known, [Do]
// applies it only to prompts that fill most of the window by estimate.
func EmptyBody() Pattern {
	return Pattern{Name: emptyBody, Match: func(status int, codes []string, text string) (Kind, bool) {
		says := cmp.Or(strings.TrimSpace(text), strings.Join(codes, " "))
		return Tokens, (status == 400 || status == 413) && (says == "" || find("no_body").MatchString(says))
	}}
}

const emptyBody = "empty body"

// Names of rules and sizes that the code treats specially.
const (
	none       = "none"
	rateLimit  = "rate_limit"
	planWindow = "plan_window"
	manySides  = "many_sides"
	tokenSizes = "tokens"
)

// maxErrors bounds the number of errors examined in a tree, because an error may wrap
// itself.
const maxErrors = 100

// walk is one pass over a tree of errors.
type walk struct {
	patterns []Pattern
	left     int
	stopped  string // the rule of a cancellation or a timeout, or ""
}

// chain classifies err and its wrapped errors. The innermost error decides; its
// wrappers decide only if it is inconclusive. If an error wraps several, the first
// overflow among them decides, else the first error that a rule matches.
func (w *walk) chain(err error) (ev evidence, o Overflow) {
	o.Rule = none
	if v := reflect.ValueOf(err); w.left <= 0 || err == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return ev, o // methods would get a nil receiver
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
		if said == 0 || said < ev.said { // else err adds no evidence
			o = ev.decide(w.patterns)
		}
	}
	return ev, o
}

// look notes a cancellation or a timeout, which decides anywhere in the tree.
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
			n, _ := strconv.Atoi(strings.Join(m[1:], "")) // one of the groups has matched
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
		signs = append(signs, "code "+c[strings.LastIndexByte(c, '#')+1:]) // without a namespace of AWS
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

// rateLimited tells a request that can never pass from one that only has to wait.
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

// sizeSorts maps kinds and refused parts to the sort of sizes in their errors.
var sizeSorts = map[string]string{
	string(Tokens): tokenSizes, string(TokensPlusOutput): tokenSizes, string(Bytes): "bytes", string(RateLimit): "allowance",
	string(Messages): "count", "count": "count", "side": "side", "size": "bytes", "text": "bytes",
}

// found adds sizes to the result of a rule. The sizes may correct the kind.
func (ev *evidence) found(k Kind, refused, rule string) Overflow {
	o := Overflow{Kind: k, Rule: rule}
	if k == Part {
		o.Refused, o.Path = refused, ev.place()
	}
	sort := sizeSorts[cmp.Or(o.Refused, string(k))]
	if sort == "" {
		return o
	}
	// Each text is read by itself, because several may hold the same sentence.
	f := ev.sizes
	for _, t := range ev.texts {
		f.merge(readFigures(sort, t))
	}
	if k == Tokens && rule != planWindow { // its errors name the windows of other plans
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
