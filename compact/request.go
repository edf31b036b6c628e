package compact

import (
	"strings"

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
	text, asked, _ := strings.Cut(summary, "\n\n"+requestHeading+"\n")
	return text, request{asked}
}

// after returns the request at the end of h: that of its last turn, which is r
// unless a turn starts in h.
func (r request) after(h rebuild.History) request {
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
			r, said = request{}, nil
		}
		said = append(said, text)
	}
	if r.text != "" {
		said = append([]string{r.text}, said...)
	}
	return request{strings.Join(said, "\n\n")}
}

// within cuts the request in the middle so that it has at most so many tokens,
// and returns how many it has.
func (r request) within(most int, count func(string) int) (request, int) {
	size := count(r.text)
	if r.text == "" || size <= most {
		return r, size
	}
	runes := []rune(r.text)
	for keep := len(runes); keep > 0; {
		keep = min(keep*most/size, keep-keep/16-1)
		s := string(runes[:max(keep*2/3, 0)]) + "\n[...]\n" + string(runes[len(runes)-max(keep/3, 0):])
		if size = count(s); size <= most {
			return request{s}, size
		}
	}
	return request{}, 0
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

// add puts the request behind a summary that does not have it, be it with
// other white space.
func (r request) add(summary string) string {
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if r.text == "" || strings.Contains(words(summary), words(r.text)) {
		return summary
	}
	return summary + "\n\n" + requestHeading + "\n" + r.text
}
