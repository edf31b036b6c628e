// Package said reads and makes messages, for the packages that serve them.
package said

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// A Part is a part of a message.
type Part struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	URI         string `json:"uri"`
	ContextType string `json:"context_type"`
	Abstract    string `json:"abstract"`
}

// Message returns the message of a role with a text, or with parts, which count
// if both are present. The error is a text for the client.
func Message(role, content string, parts []Part) (m transcript.Message, err error) {
	m.Role = transcript.Role(role)
	if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant {
		return m, errors.New("the role is neither user nor assistant")
	}
	if len(parts) == 0 { // the line is the library's
		text := transcript.UserText(content)
		text.Role = m.Role
		return text, nil
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			m.Content = append(m.Content, transcript.TextBlock{Text: p.Text})
		case "context":
			m.Content = append(m.Content, transcript.ContextBlock{URI: p.URI, Kind: p.ContextType, Abstract: p.Abstract})
		default:
			return m, errors.New("a part is neither text nor context: record calls of tools with the library")
		}
	}
	return m, nil
}

// Each calls f with the entries of the conversation that people want to see, in
// order.
func Each(ctx context.Context, s *session.Session, f func(transcript.Entry)) error {
	after := ""
	for {
		page, err := search.Page(ctx, s, after, 500)
		if err != nil {
			return err
		}
		for _, e := range page {
			f(e)
		}
		if len(page) < 500 {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

// Result is the text of the result of a call.
func Result(b transcript.Block) string {
	r, ok := b.(transcript.ToolResultBlock)
	if !ok {
		return Text(b)
	}
	return transcript.Message{Content: r.Content}.Text()
}

// Text is the text of a block of a user.
func Text(b transcript.Block) string {
	if t, ok := b.(transcript.TextBlock); ok {
		return t.Text
	}
	return ""
}
