package transcript

import (
	"errors"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
)

// Role is the author of a message.
type Role string

// The roles. Tool results are part of user messages.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one role-tagged item of the list that is sent to a model.
type Message struct {
	Role    Role
	Content []Block
	// Origins holds the origin of each block of Content; it is nil or as long
	// as Content. It is never rendered: it lets a renderer give reasoning and
	// opaque blocks back only to the model that made them.
	Origins []Origin
	plain   bool // Content is one text and is written as a JSON string
}

// Origin is where a block of a history came from.
type Origin struct {
	Entry string // ID of the entry that holds it; empty for a synthetic block
	// Batch orders the appends of a transcript: of two blocks the one with the
	// greater Batch was appended later. It is 0 for a synthetic block and for
	// a summary.
	Batch int
	// Block is the index of the block in the content of its entry, [WholeEntry]
	// or [PromptEntry]. In a synthetic block it names the block that it
	// replaces.
	Block int
	API   string // of the answer it is part of, as in [Response]
	Model string
	// Answer is that answer, if it recorded its request (see [Made]); nil
	// otherwise.
	Answer *Answer
}

// The values of [Origin.Block] that are not indexes.
const (
	// WholeEntry is for a block that fills its entry: a call or a result on its
	// own line.
	WholeEntry = -1
	// PromptEntry is for a text of the user made of a later [System] or [Tools]
	// entry. A renderer may give it the role that the provider has for it.
	PromptEntry = -2
)

// UserText returns a user message of one text.
func UserText(text string) Message {
	return Message{Role: RoleUser, Content: []Block{TextBlock{Text: text}}, plain: true}
}

// AssistantText returns an assistant message of one text.
func AssistantText(text string) Message {
	return Message{Role: RoleAssistant, Content: []Block{TextBlock{Text: text}}, plain: true}
}

// ToolResult returns a user message with the result of the call with that ID.
func ToolResult(callID, output string) Message {
	return Message{Role: RoleUser, Content: []Block{textResult(callID, output, false)}}
}

// ToolError returns a user message with the reason why the call with that ID
// failed.
func ToolError(callID, reason string) Message {
	return Message{Role: RoleUser, Content: []Block{textResult(callID, reason, true)}}
}

func textResult(callID, text string, isError bool) ToolResultBlock {
	b := ToolResultBlock{CallID: callID, IsError: isError}
	if text != "" {
		b.Content, b.plain = []Block{TextBlock{Text: text}}, true
	}
	return b
}

// WithContent returns b with another content. A single text is written as a
// JSON string, as [ToolResult] does.
func (b ToolResultBlock) WithContent(content ...Block) ToolResultBlock {
	b.Content = content
	b.plain = isPlain(content)
	return b
}

func isPlain(content []Block) bool {
	if len(content) != 1 {
		return false
	}
	t, ok := content[0].(TextBlock)
	return ok && len(t.Extra) == 0
}

// Plain reports whether the content is a single text that is written as a
// JSON string and not as an array of one block.
func (m Message) Plain() bool { return m.plain && len(m.Content) == 1 }

// Text returns the text blocks of the message. A blank line separates texts of
// the user, and texts of two answers that became one message. The texts of one
// answer follow each other as the model wrote them, which may be in the middle of
// a sentence.
func (m Message) Text() string {
	var sb strings.Builder
	last := -1
	for i, b := range m.Content {
		t, ok := b.(TextBlock)
		if !ok || t.Text == "" {
			continue
		}
		if last >= 0 && m.apart(last, i) {
			sb.WriteString("\n\n")
		}
		sb.WriteString(t.Text)
		last = i
	}
	return sb.String()
}

// apart reports whether a blank line separates the texts at i and j.
func (m Message) apart(i, j int) bool {
	if m.Role != RoleAssistant {
		return true
	}
	if j >= len(m.Origins) {
		return false
	}
	x, y := m.Origins[i], m.Origins[j]
	return x.Batch != y.Batch && (x.Answer == nil || x.Answer != y.Answer)
}

// ToolCalls returns the tool calls of the message in order.
func (m Message) ToolCalls() []ToolCallBlock {
	var calls []ToolCallBlock
	for _, b := range m.Content {
		if c, ok := b.(ToolCallBlock); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// MarshalJSON implements [encoding/json.Marshaler].
func (m Message) MarshalJSON() ([]byte, error) { return m.appendJSON(nil), nil }

func (m Message) appendJSON(dst []byte) []byte {
	o := jsontext.AppendObject(dst)
	o.String("role", string(m.Role))
	o.Func("content", func(dst []byte) []byte { return appendContent(dst, m.Content, m.plain) })
	return o.End()
}

// UnmarshalJSON implements [encoding/json.Unmarshaler]. Members other than
// role and content are ignored.
func (m *Message) UnmarshalJSON(data []byte) error {
	if !jsontext.Valid(data) || !jsontext.IsObject(data) {
		return errors.New("transcript: message: not a JSON object in UTF-8")
	}
	*m = Message{}
	for name, v := range jsontext.Members(data) {
		switch name {
		case "role":
			s, ok := jsontext.String(v)
			if !ok {
				return errors.New("transcript: message: role is not a string")
			}
			m.Role = Role(s)
		case "content":
			var err error
			if m.Content, m.plain, err = decodeContent(v, false); err != nil {
				return fmt.Errorf("transcript: message: content: %w", err)
			}
		}
	}
	return nil
}
