// Package claudeai reads the conversations of a claude.ai export.
//
// Messages name their parents in newer exports. The path to the current leaf, or to the
// last message, is the conversation, and messages off it are branches. Without parents
// the conversation is the list of messages.
package claudeai

import (
	"cmp"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/thread"
)

// A Reader reads one conversation.
type Reader struct {
	thread.Thread

	leaf, model string
	last        string // the ID of the message before
	live        map[int64]bool
}

// New returns a reader of one conversation.
func New() *Reader { return &Reader{} }

// Head implements the interface of a program with documents.
func (c *Reader) Head(r fields.Record) fields.Head {
	c.leaf, c.model = r.Str("current_leaf_message_uuid"), r.Str("model")
	return fields.Head{ID: r.Str("uuid"), Title: r.Str("name"), Created: fields.Time(r["created_at"])}
}

// Genuine implements the interface of a program.
func (*Reader) Genuine(fields.Record) bool { return false }

// Decode implements the interface of a program. A message of the model with results in
// it becomes several entries.
func (*Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := cmp.Or(r.Str("uuid"), fields.AtOffset(offset))
	m := message{id: id}
	for _, raw := range r.Elements("content") {
		m.add(raw)
	}
	if len(m.Blocks)+len(m.Bodies) == 0 && r.Str("text") != "" {
		m.Blocks = fields.Texts(r.Str("text"))
	}
	switch sender := r.Str("sender"); sender {
	case "human":
		m.Blocks = append(m.Blocks, files(r)...)
		m.Bodies = append(m.Bodies, fields.User(m.Blocks...))
	case "assistant":
		m.Blocks = append(m.Blocks, files(r)...)
		m.Bodies = m.All()
	default:
		m.Bodies = []transcript.Body{transcript.Unknown{Kind: sender}}
	}
	return fields.Entries(id, fields.Time(r["created_at"]), m.Bodies...), nil
}

// message collects the entries of a message.
type message struct {
	fields.Lines
	id    string
	open  []string // the IDs of calls without a result
	calls int
}

// add adds a block. Calls of older exports have no ID: a result answers the first open
// one.
func (m *message) add(raw []byte) {
	b := fields.Of(raw)
	switch kind := b.Str("type"); kind {
	case "text":
		m.Blocks = append(m.Blocks, transcript.TextBlock{Text: b.Str("text")})
	case "thinking":
		m.Blocks = append(m.Blocks, transcript.ThinkingBlock{Thinking: b.Str("thinking"), Signature: b.Str("signature")})
	case "tool_use":
		m.calls++
		c := transcript.ToolCallBlock{ID: b.Str("id"), Name: b.Str("name"), Input: fields.Input(b["input"], "input")}
		if c.ID == "" {
			c.ID = m.id + "/" + strconv.Itoa(m.calls)
		}
		m.open = append(m.open, c.ID)
		m.Blocks = append(m.Blocks, c)
	case "tool_result":
		m.Flush()
		id := b.Str("tool_use_id")
		for i, open := range m.open {
			if id == "" || id == open {
				id, m.open = open, append(m.open[:i:i], m.open[i+1:]...)
				break
			}
		}
		content := []transcript.Block{}
		if s, ok := jsontext.String(b["content"]); ok {
			content = append(content, transcript.TextBlock{Text: s})
		}
		for _, raw := range b.Elements("content") {
			content = append(content, part(raw))
		}
		m.Bodies = append(m.Bodies, fields.Result(id, b.Flag("is_error"), content...))
	case "token_budget", "flag": // of the program
	default:
		m.Blocks = append(m.Blocks, part(raw))
	}
}

// part returns a block of another type, or one in a result.
func part(raw []byte) transcript.Block {
	b := fields.Of(raw)
	switch kind := b.Str("type"); kind {
	case "text":
		return transcript.TextBlock{Text: b.Str("text")}
	case "image":
		if source := b.Object("source"); source.Str("type") == "base64" {
			return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: source.Str("media_type"), Data: source.Str("data")}}
		}
		return fields.Note(kind, b.Str("file_uuid"))
	default: // such as knowledge, which a search has found
		for _, name := range []string{"text", "title", "url", "name"} {
			if b.Str(name) != "" {
				return fields.Note(kind, b.Str(name))
			}
		}
		return fields.Note(kind, "")
	}
}

// files returns the attachments of a message, whose texts are in the export, and notes
// for its files, which are not.
func files(r fields.Record) []transcript.Block {
	var blocks []transcript.Block
	for a := range r.Objects("attachments") {
		name, text := a.Str("file_name"), a.Str("extracted_content")
		if text == "" {
			blocks = append(blocks, fields.Note("file", name))
			continue
		}
		source := transcript.Source{Type: "text", MediaType: "text/plain", Data: text}
		blocks = append(blocks, transcript.DocumentBlock{Source: source, Title: name})
	}
	seen := map[string]bool{}
	for _, member := range []string{"files", "files_v2"} {
		for f := range r.Objects(member) {
			name := cmp.Or(f.Str("file_name"), f.Str("file_uuid"))
			if !seen[name] {
				blocks = append(blocks, fields.Note("file", name))
			}
			seen[name] = true
		}
	}
	return blocks
}

// Learn implements the interface of a program.
func (c *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	parent := c.last
	if r["parent_message_uuid"] != nil {
		parent = r.Str("parent_message_uuid")
	}
	c.last = made[0].ID
	c.Add(made[0].ID, parent, offset)
}

// Settle implements the interface of a program.
func (c *Reader) Settle() {
	c.Thread.Settle(c.leaf)
	c.live = c.Live()
}

// Place implements the interface of a program.
func (c *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if !c.live[offset] {
		return fields.SetAside(made, "branch")
	}
	for i, e := range made {
		if f, ok := e.Body.(transcript.MessageLine); ok && f.Role == transcript.RoleAssistant {
			f.Model = c.model
			made[i].Body = f
		}
	}
	return made
}
