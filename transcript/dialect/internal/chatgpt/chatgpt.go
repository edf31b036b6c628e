// Package chatgpt reads the conversations of a ChatGPT export: trees of messages, whose
// path to the current node is the conversation. Answers that were generated again and
// edited prompts are branches.
//
// A message to a recipient other than all is a call, and a message of a tool its result.
// A further result, or one without a call, gets an empty call of its own, because only
// pairs go back to a model.
package chatgpt

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/thread"
)

// A Reader reads one conversation.
type Reader struct {
	thread.Thread
	Assets

	leaf  string
	live  map[int64]bool
	calls map[int64]call // results too, by the name of their tool
	pairs map[int64]string
}

// call is a call or a result.
type call struct {
	id, tool string
	result   bool
}

// New returns a reader of one conversation.
func New() *Reader { return &Reader{calls: map[int64]call{}, pairs: map[int64]string{}} }

// Head implements the interface of a program with documents.
func (c *Reader) Head(r fields.Record) fields.Head {
	c.leaf = r.Str("current_node")
	id := cmp.Or(r.Str("conversation_id"), r.Str("id"))
	return fields.Head{ID: id, Title: r.Str("title"), Created: fields.Time(r["create_time"])}
}

// Genuine implements the interface of a program.
func (*Reader) Genuine(fields.Record) bool { return false }

// Decode implements the interface of a program.
func (c *Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := cmp.Or(r.Str("id"), fields.AtOffset(offset))
	m := r.Object("message")
	if len(m) == 0 {
		return fields.Entries(id, fields.Time(nil), fields.Aside("root")), nil
	}
	return fields.Entries(id, fields.Time(m["create_time"]), c.message(id, m)), nil
}

func (c *Reader) message(id string, m fields.Record) transcript.Body {
	author, content, meta := m.Object("author"), m.Object("content"), m.Object("metadata")
	kind := content.Str("content_type")
	blocks, known := c.blocks(kind, content)
	role := author.Str("role")
	switch {
	case role == "system" || role == "developer":
		return fields.Aside("system")
	case kind == "user_editable_context" || kind == "model_editable_context" || kind == "reasoning_recap":
		return fields.Aside(kind)
	case !known:
		return transcript.Unknown{Kind: kind}
	}
	switch role {
	case "user":
		return fields.User(append(blocks, attachments(meta)...)...)
	case "tool":
		if len(blocks) == 0 {
			return fields.Aside("tool")
		}
		return fields.Result(id, kind == "system_error", blocks...)
	case "assistant":
		f := fields.Answer(blocks...)
		if to := m.Str("recipient"); to != "" && to != "all" && to != "assistant" {
			f = fields.Answer(transcript.ToolCallBlock{ID: id, Name: to, Input: fields.Input(jsontext.AppendString(nil, f.Message().Text()), "code")})
		}
		f.Model, f.StopReason = meta.Str("model_slug"), stop(meta.Object("finish_details").Str("type"), m.Str("status"))
		return f
	}
	return transcript.Unknown{Kind: role}
}

func stop(reason, status string) transcript.StopReason {
	switch {
	case reason == "stop":
		return transcript.StopEndTurn
	case reason == "max_tokens":
		return transcript.StopMaxTokens
	case reason == "interrupted" || status == "in_progress":
		return transcript.StopAborted
	}
	return transcript.StopReason(reason)
}

// blocks returns the content of a message, and whether its type is known or has a text.
func (c *Reader) blocks(kind string, r fields.Record) (blocks []transcript.Block, known bool) {
	switch kind {
	case "thoughts":
		var texts []string
		for t := range r.Objects("thoughts") {
			texts = append(texts, strings.TrimSpace(t.Str("summary")+"\n\n"+t.Str("content")))
		}
		return []transcript.Block{transcript.ThinkingBlock{Thinking: strings.Join(texts, "\n\n")}}, true
	case "tether_quote":
		return fields.Texts(strings.TrimSpace(r.Str("title") + "\n" + r.Str("url") + "\n\n" + r.Str("text"))), true
	}
	known = kind == "text" || kind == "code" || kind == "tether_browsing_display"
	for _, raw := range r.Elements("parts") {
		known = true
		if s, ok := jsontext.String(raw); ok {
			blocks = append(blocks, fields.Texts(s)...)
		} else {
			blocks = append(blocks, c.part(fields.Of(raw)))
		}
	}
	for _, name := range []string{"text", "result", "summary", "content"} {
		if s := r.Str(name); s != "" {
			blocks, known = append(blocks, transcript.TextBlock{Text: s}), true
		}
	}
	if shot := r.Object("screenshot"); len(shot) > 0 {
		blocks, known = append(blocks, c.part(shot)), true
	}
	return blocks, known
}

// part returns an object in the content of a message: an image whose file is in the
// export, else a note.
func (c *Reader) part(p fields.Record) transcript.Block {
	if text := p.Str("text"); text != "" { // of a recording, for example
		return transcript.TextBlock{Text: text}
	}
	kind, at := p.Str("content_type"), p.Str("asset_pointer")
	if at == "" {
		at = p.Object("audio_asset_pointer").Str("asset_pointer")
	}
	if strings.HasPrefix(kind, "image") {
		kind = "image"
		if data := c.Asset(at); data != nil {
			for _, i := range images {
				if strings.HasPrefix(string(data[:min(4, len(data))]), i.begins) {
					return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: i.mediaType, Data: base64.StdEncoding.EncodeToString(data)}}
				}
			}
		}
	}
	return fields.Note(kind, at)
}

// images are the first bytes of images that models take.
var images = []struct{ begins, mediaType string }{
	{"\x89PNG", "image/png"}, {"\xff\xd8\xff", "image/jpeg"}, {"GIF8", "image/gif"}, {"RIFF", "image/webp"},
}

// attachments names the files of a message, images aside: those are parts.
func attachments(meta fields.Record) []transcript.Block {
	var notes []transcript.Block
	for a := range meta.Objects("attachments") {
		if !strings.HasPrefix(a.Str("mime_type")+a.Str("mimeType"), "image/") {
			notes = append(notes, fields.Note("file", a.Str("name")))
		}
	}
	return notes
}

// Learn implements the interface of a program.
func (c *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	c.Add(made[0].ID, r.Str("parent"), offset)
	f, _ := made[0].Body.(transcript.MessageLine)
	m := r.Object("message")
	switch {
	case f.Kind == transcript.TypeToolResult:
		c.calls[offset] = call{made[0].ID, m.Object("author").Str("name"), true}
	case len(f.Message().ToolCalls()) > 0:
		c.calls[offset] = call{made[0].ID, m.Str("recipient"), false}
	}
}

// Settle implements the interface of a program. A result answers the last open call of
// its tool, else of any tool whose name begins alike: the tool web answers web.run.
func (c *Reader) Settle() {
	c.Thread.Settle(c.leaf)
	c.live = c.Live()
	var open []call
	for _, offset := range c.Order() {
		at, ok := c.calls[offset]
		switch {
		case !ok || !c.live[offset]:
		case !at.result:
			open = append(open, at)
		default:
			for i, asked := range slices.Backward(open) {
				if alike(asked.tool, at.tool) {
					c.pairs[offset] = asked.id
					open = slices.Delete(open, i, i+1)
					break
				}
			}
		}
	}
}

func alike(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b || b == ""
}

// Place implements the interface of a program.
func (c *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if !c.live[offset] {
		return fields.SetAside(made, "branch")
	}
	at := c.calls[offset]
	if !at.result {
		return made
	}
	f, _ := made[0].Body.(transcript.MessageLine)
	r, _ := f.Content[0].(transcript.ToolResultBlock)
	if r.CallID = c.pairs[offset]; r.CallID != "" {
		f.Content = []transcript.Block{r}
		made[0].Body = f
		return made
	}
	r.CallID = at.id
	f.Content = []transcript.Block{r}
	return fields.Entries(at.id, made[0].Time, fields.Call(transcript.ToolCallBlock{ID: at.id, Name: at.tool, Input: []byte(`{}`)}), f)
}
