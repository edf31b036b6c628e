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
	text string
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
	return summary[:at], request{summary[at+len(mark):]}
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
		if h.StartsTurn(i) {
			started, said = true, nil
		}
		said = append(said, text)
	}
	if r.text != "" && !started {
		said = append([]string{r.text}, said...)
	}
	return request{strings.Join(said, "\n\n")}, started
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

// within shortens the request in the middle so that it has at most so many
// tokens, and returns how many it has.
func (r request) within(most int, count func(string) int) (request, int) {
	if r.text == "" {
		return r, 0
	}
	text, size := r.text, count(r.text)
	for keep := utf8.RuneCountInString(text); size > most; size = count(text) {
		if keep = min(keep*most/size, keep-keep/16-1); keep <= 0 {
			return request{}, 0
		}
		text = clip(r.text, keep)
	}
	return request{text}, size
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
