package guardtest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/convolog/convolog/internal/wiretest"
)

// A Rule makes the answers of a model. It must be safe for several goroutines, as the
// rules of this package are. Some rules have state, so give each to one model only.
type Rule func(Request) Answer

// Echo repeats the last text of the user, or the results of the tools.
func Echo(r Request) Answer {
	if text := r.UserText(); text != "" {
		return Say(text)
	}
	var texts []string
	for _, res := range r.Results() {
		if text := res.Text(); text != "" {
			texts = append(texts, text)
		}
	}
	return Say(cmp.Or(strings.Join(texts, "\n"), "(nothing)"))
}

// Always gives the same answer to every request.
func Always(a Answer) Rule { return func(Request) Answer { return a } }

// Script gives the answers one after the other. Every later request fails with status
// 400 and a message about the end of the script. Clients do not retry after that
// status, and the outcome is [Failed], not [Invalid].
func Script(answers ...Answer) Rule {
	over := Fail(http.StatusBadRequest, wiretest.KindInvalid, "guardtest: the script has no more answers")
	return Start(Always(over), answers...)
}

// Start gives the answers one after the other and then follows a rule; nil is
// [Echo].
func Start(then Rule, answers ...Answer) Rule {
	var asked atomic.Int64
	answers = slices.Clone(answers)
	return func(r Request) Answer {
		if n := int(asked.Add(1)); n <= len(answers) {
			return answers[n-1]
		}
		return then.orEcho(r)
	}
}

// When answers by the rule then if cond is true of the request, and by otherwise if
// not. A nil rule is [Echo].
func When(cond func(Request) bool, then, otherwise Rule) Rule {
	return func(r Request) Answer {
		if cond(r) {
			return then.orEcho(r)
		}
		return otherwise.orEcho(r)
	}
}

// SystemHas is a condition for [When]: the system prompt contains a text. Summarizers,
// for example, have a prompt of their own.
func SystemHas(text string) func(Request) bool {
	return func(r Request) bool { return strings.Contains(r.System, text) }
}

// UserHas is a condition for [When]: the text of the last message contains a
// text.
func UserHas(text string) func(Request) bool {
	return func(r Request) bool { return strings.Contains(r.UserText(), text) }
}

// AfterTools is a condition for [When]: the last message contains tool results.
func AfterTools(r Request) bool {
	return len(r.Results()) > 0
}

func (rule Rule) orEcho(r Request) Answer {
	if rule == nil {
		return Echo(r)
	}
	return rule(r)
}
