package main

import (
	"context"
	"strings"

	"github.com/convolog/convolog/examples/internal/remember"
	"github.com/convolog/convolog/transcript"
)

// scripted is a model that needs no network. As an answer, it repeats the memories
// it is shown. As memories, it takes the user's sentences about himself.
type scripted struct{}

func (scripted) Complete(_ context.Context, req transcript.Request) (*transcript.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	answer := "I have no idea."
	switch known := quoted(last); {
	case len(req.Tools) == 0 && strings.Contains(last.Text(), "</conversation>"):
		answer = remember.Candidates(last.Text())
	case len(known) > 0:
		answer = "You have told me: " + strings.Join(known, " ")
	case !strings.HasSuffix(last.Text(), "?"):
		answer = "Nice to know."
	}
	return &transcript.Response{Message: transcript.AssistantText(answer), StopReason: transcript.StopEndTurn}, nil
}

// quoted returns the lines of memories in a message.
func quoted(m transcript.Message) (lines []string) {
	for line := range strings.Lines(m.Text()) {
		if said, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    "); ok {
			lines = append(lines, said)
		}
	}
	return lines
}
