// Package said reads and makes messages for package serve and its surfaces.
package said

import (
	"context"
	"errors"
	"slices"
	"strings"

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

// ContextTypes are the types of a context in a part.
var ContextTypes = []string{"memory", "resource", "skill"}

// Message returns a message of a role with a text or with parts. If both are present, it
// ignores the text. The text of an error is meant for the client.
func Message(role, content string, parts []Part) (m transcript.Message, err error) {
	m.Role = transcript.Role(role)
	if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant {
		return m, errors.New("the role is neither user nor assistant")
	}
	if len(parts) == 0 { // gives the same line as the library
		text := transcript.UserText(content)
		text.Role = m.Role
		return text, Check(text)
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			m.Content = append(m.Content, transcript.TextBlock{Text: p.Text})
		case "context":
			if !slices.Contains(ContextTypes, p.ContextType) {
				return m, errors.New("the context_type of a part is neither memory, resource nor skill")
			}
			m.Content = append(m.Content, transcript.ContextBlock{URI: p.URI, Kind: p.ContextType, Abstract: p.Abstract})
		default:
			return m, errors.New("a part is neither text nor context: append tool calls with the Go library")
		}
	}
	return m, Check(m)
}

// Check refuses a message without content: of blank texts alone.
func Check(m transcript.Message) error {
	for _, b := range m.Content {
		if t, ok := b.(transcript.TextBlock); !ok || strings.TrimSpace(t.Text) != "" {
			return nil
		}
	}
	return errors.New("the message is empty")
}

// Each calls f with the entries of the conversation that [search.Page] shows, in order.
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

// Result returns the text of the result of a call, and [Text] of any other block.
func Result(b transcript.Block) string {
	r, ok := b.(transcript.ToolResultBlock)
	if !ok {
		return Text(b)
	}
	return transcript.Message{Content: r.Content}.Text()
}

// Text returns the text of a text block, and "" for any other block.
func Text(b transcript.Block) string {
	if t, ok := b.(transcript.TextBlock); ok {
		return t.Text
	}
	return ""
}
