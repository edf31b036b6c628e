package page

import (
	"context"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A Context divides the context window of a session by kinds of content.
type Context struct {
	Parts       []Part     `json:"parts"`       // the parts of the next model request
	Entries     int        `json:"entries"`     // entries of the conversation, including rewound ones
	Compactions []Compared `json:"compactions"` // the oldest first
}

// A Part is all content of one kind.
type Part struct {
	Kind   string `json:"kind"`   // system, summary, user, assistant, reasoning, calls, results, media
	Tokens int    `json:"tokens"` // an estimate
}

// Compared is a compaction with the size of the history before and after it, in tokens.
type Compared struct {
	Entry  string    `json:"entry"`
	Time   time.Time `json:"time"`
	At     int       `json:"at"` // the number of earlier entries of the conversation
	Before int       `json:"before"`
	After  int       `json:"after"`
}

// kinds is the order of the parts.
var kinds = []string{"system", "summary", "user", "assistant", "reasoning", "calls", "results", "media"}

// Of describes the context window of a session. It reads the whole transcript.
func Of(ctx context.Context, s *session.Session) (c Context, err error) {
	c.Compactions = []Compared{}
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			return c, err
		}
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			c.Entries++
		case transcript.Compaction:
			c.Compactions = append(c.Compactions, Compared{e.ID, e.Time, c.Entries, b.TokensBefore, b.TokensAfter})
			c.Entries++
		default:
		}
	}
	h, err := s.History(ctx)
	if err != nil {
		return c, err
	}
	var estimate tokens.Estimator
	sum := map[string]int{"system": estimate.Count(h.SystemPrompt(""), nil, nil)}
	for i, m := range h.Messages {
		for k, b := range m.Content {
			kind := kindOf(m.Role, b)
			if i == 0 && h.Compaction != nil && k < len(m.Origins) && m.Origins[k].Batch == 0 {
				kind = "summary"
			}
			sum[kind] += estimate.Count("", nil, []transcript.Message{{Role: m.Role, Content: []transcript.Block{b}}})
		}
	}
	c.Parts = []Part{}
	for _, kind := range kinds {
		if sum[kind] > 0 {
			c.Parts = append(c.Parts, Part{kind, sum[kind]})
		}
	}
	return c, nil
}

func kindOf(role transcript.Role, b transcript.Block) string {
	switch b.(type) {
	case transcript.ToolCallBlock:
		return "calls"
	case transcript.ToolResultBlock:
		return "results"
	case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		return "reasoning"
	case transcript.ImageBlock, transcript.DocumentBlock:
		return "media"
	}
	if role == transcript.RoleUser {
		return "user"
	}
	return "assistant"
}
