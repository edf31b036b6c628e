package compact

import (
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// request is what the user wants of the running turn, in the user's words: a
// summary that covers the beginning of a turn carries it, so that no
// summarizer can lose it.
type request struct {
	text   string
	latest string // the last words in it, if they are known
}

// requestHeading stands before the user's words at the end of a summary, on a
// line of its own. It is part of the text that is stored.
const requestHeading = "[The user's words in the turn that goes on below]"

// takeRequest divides a summary into what was written and the request that was
// added to it.
func takeRequest(summary string) (string, request) {
	mark := "\n\n" + requestHeading + "\n"
	at := strings.LastIndex(summary, mark)
	if at < 0 {
		return summary, request{}
	}
	return summary[:at], request{text: summary[at+len(mark):]}
}

// add returns the request with what the user wrote in the messages; started
// reports whether a turn starts in them, which makes r a request of another
// turn.
func (r request) add(h rebuild.History) (all request, started bool) {
	var said []string
	for i, m := range h.Messages {
		if m.Role != transcript.RoleUser {
			continue
		}
		text := userWords(m)
		if text == "" {
			continue
		}
		if h.StartsTurn(i) && !unanswered(rebuild.History{Messages: h.Messages[:i]}) {
			started, said = true, nil
		}
		said = append(said, text)
	}
	if r.text != "" && !started {
		said = append([]string{r.text}, said...)
	}
	all.text = strings.Join(said, "\n\n")
	if len(said) > 0 {
		all.latest = said[len(said)-1]
	}
	return all, started
}

// unanswered reports whether a history ends with a turn in which the assistant
// has said nothing yet, or nothing after its calls.
func unanswered(h rebuild.History) bool {
	if len(h.Messages) == 0 {
		return false
	}
	last := h.Messages[len(h.Messages)-1]
	return last.Role != transcript.RoleAssistant || len(last.ToolCalls()) > 0 || blank(last.Text())
}

// userWords is what the user wrote in a message.
func userWords(m transcript.Message) string {
	var said []string
	for i, b := range m.Content {
		t, ok := b.(transcript.TextBlock)
		if !ok || i < len(m.Origins) && m.Origins[i].Batch == 0 {
			continue
		}
		said = append(said, strings.TrimSpace(t.Text))
	}
	return strings.Join(said, "\n\n")
}

// within shortens the request so that it has at most so many tokens, and returns
// how many it has: in the middle, but before the last words if these alone have
// at most three quarters of that.
func (r request) within(most int, count func(string) int) (request, int) {
	if r.text == "" {
		return r, 0
	}
	text, size := r.text, count(r.text)
	before, end := r.text, ""
	if rest, ok := strings.CutSuffix(r.text, "\n\n"+r.latest); ok && r.latest != "" && size > most && count(r.latest) <= most*3/4 {
		before, end = rest, "\n\n"+r.latest
	}
	for keep := utf8.RuneCountInString(before); size > most; size = count(text) {
		if keep = min(keep*most/size, keep-keep/16-1); keep <= 0 {
			if end == "" {
				return request{}, 0
			}
			return request{text: r.latest}, count(r.latest)
		}
		text = clip(before, keep) + end
	}
	return request{text: text}, size
}

// join puts the request behind a summary, unless it is there already, be it
// with other white space. A few words may be there by chance, so they are
// always put there.
func (r request) join(summary string) string {
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	const few = 40 // bytes
	if r.text == "" || len(r.text) > few && strings.Contains(words(summary), words(r.text)) {
		return summary
	}
	return summary + "\n\n" + requestHeading + "\n" + r.text
}
