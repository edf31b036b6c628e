package main

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
)

// model is a placeholder for your client. It calls a tool for each new text of the user,
// and answers after the result.
type model struct{}

func (model) Complete(_ context.Context, req transcript.Request) (*transcript.Response, error) {
	for _, b := range req.Messages[len(req.Messages)-1].Content {
		if result, ok := b.(transcript.ToolResultBlock); ok {
			return &transcript.Response{Message: transcript.AssistantText("Done: " + result.Text())}, nil
		}
	}
	input, err := json.Marshal(map[string]string{"order": req.Messages[len(req.Messages)-1].Text()})
	return &transcript.Response{StopReason: transcript.StopToolUse, Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.TextBlock{Text: "Let me book it."},
			transcript.ToolCallBlock{ID: rand.Text(), Name: "book", Input: input},
		},
	}}, err
}

// book is a placeholder for a service. It returns the same output for the same key.
func book(_ context.Context, key string, call transcript.ToolCallBlock) (string, error) {
	return "booking " + key + " of " + string(call.Input), nil
}

func newAgent(m guard.Client) *agent {
	return &agent{guard: &guard.Guard{Window: 200_000}, model: m, run: book}
}
