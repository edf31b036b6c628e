package pi

import (
	"cmp"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// A Writer writes a session as pi does in version 3: a header, and rows that each
// name the one before. The zero value is ready.
type Writer struct {
	rows.Log
	leaf  string
	tools map[string]string // call ID -> name
}

// Start begins a session and returns the name of its file. The routing keys of
// OpenClaw begin with "agent:"; its sessions are in the folders of agents.
func (w *Writer) Start(s rows.Session) (id, file string) {
	id = s.ID
	if id == "" || len(id) > 100 || strings.Trim(id, "._-") != id || strings.Trim(id, alphabet) != "" {
		id = rows.UUID(cmp.Or(id, s.Key))
	}
	at := rows.Stamp(s.Created)
	w.Add(rows.Object("type", "session", "version", 3, "id", id, "timestamp", at, "cwd", s.Dir))
	if s.Title != "" {
		w.Title(s.Title, transcript.Entry{Time: s.Created})
	}
	if strings.HasPrefix(s.Key, "agent:") {
		return id, path.Join("agents", s.Agent, "sessions", id)
	}
	dir := rows.Folder(strings.TrimPrefix(strings.TrimPrefix(s.Dir, "/"), `\`), func(r rune) rune {
		if strings.ContainsRune(`/\:`, r) || unicode.IsControl(r) || r == utf8.RuneError {
			return '-'
		}
		return r
	})
	return id, path.Join("sessions", "--"+dir+"--", strings.NewReplacer(":", "-", ".", "-").Replace(at)+"_"+id)
}

const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// add adds a row below the last one.
func (w *Writer) add(kind, id string, at time.Time, members ...any) *jsontext.Object {
	o := rows.Object(append([]any{"type", kind, "id", id, "parentId", rows.OrNull(w.leaf), "timestamp", rows.Stamp(at)}, members...)...)
	w.leaf = id
	w.Add(o)
	return o
}

func (w *Writer) unique(id string) string {
	return w.Unique(id, func(seed string) string { return rows.UUID(seed)[:8] })
}

// Title writes the name of the session.
func (w *Writer) Title(name string, e transcript.Entry) {
	w.add("session_info", w.unique(e.ID), e.Time, "name", name)
}

// Message writes a message.
func (w *Writer) Message(m rows.Message) {
	if m.MadeUp() { // the program makes one up itself
		return
	}
	id := w.unique(m.Entry)
	w.Place(m, id)
	var said *jsontext.Object
	switch m.Kind {
	case transcript.TypeAssistant:
		said = w.answer(m)
	case transcript.TypeToolResult:
		r := m.Result()
		said = rows.Object(
			"role", "toolResult", "toolCallId", r.CallID, "toolName", w.tools[r.CallID],
			"content", w.Content(r.Content, textOrImage), "isError", r.IsError,
		)
	default:
		var content any = m.Message().Text()
		if !m.Message().Plain() {
			content = w.Content(m.Content, textOrImage)
		}
		said = rows.Object("role", "user", "content", content)
	}
	said.Int("timestamp", rows.Milliseconds(m.Time))
	w.add("message", id, m.Time, "message", said)
}

// textOrImage returns a text or an image in version 3.
func textOrImage(b transcript.Block) []byte {
	switch b := b.(type) {
	case transcript.TextBlock:
		return withExt(rows.Object("type", "text", "text", b.Text), b.Extra, "textSignature")
	case transcript.ImageBlock:
		if b.Source.Type == "base64" {
			return rows.Object("type", "image", "data", b.Source.Data, "mimeType", b.Source.MediaType).End()
		}
	}
	return nil
}

// withExt returns the block with the member that its reader has kept.
func withExt(o *jsontext.Object, extra transcript.Extra, name string) []byte {
	if v, ok := jsontext.Member(extra["ext"], name); ok {
		o.Value(name, v)
	}
	return o.End()
}

func (w *Writer) answer(m rows.Message) *jsontext.Object {
	content := w.Content(m.Content, func(b transcript.Block) []byte {
		switch b := b.(type) {
		case transcript.ThinkingBlock:
			if b.Thinking == "" && b.Signature == "" {
				return nil
			}
			return rows.Object("type", "thinking", "thinking", b.Thinking, "thinkingSignature", rows.Opt(b.Signature)).End()
		case transcript.RedactedThinkingBlock:
			return rows.Object("type", "thinking", "thinking", "", "thinkingSignature", b.Data, "redacted", true).End()
		case transcript.ToolCallBlock:
			if w.tools == nil {
				w.tools = map[string]string{}
			}
			w.tools[b.ID] = b.Name
			return withExt(rows.Object("type", "toolCall", "id", b.ID, "name", b.Name, "arguments", rows.Input(b)), b.Extra, "thoughtSignature")
		}
		return textOrImage(b)
	})
	api := apis[m.API]
	u := m.Usage
	cost := rows.Object("input", 0, "output", 0, "cacheRead", 0, "cacheWrite", 0, "total", 0)
	usage := rows.Object(
		"input", u.Input, "output", u.Output, "cacheRead", u.CacheRead, "cacheWrite", u.CacheWrite,
		"totalTokens", u.Input+u.Output+u.CacheRead+u.CacheWrite, "cost", cost,
	)
	return rows.Object(
		"role", "assistant", "content", content, "api", cmp.Or(api.name, m.API), "provider", api.provider, "model", m.Model,
		"usage", usage, "stopReason", stopOf(m), "responseId", rows.Opt(m.RequestID),
	)
}

// apis are pi's names of the APIs and of the providers that have them.
var apis = map[string]struct{ name, provider string }{
	"anthropic":        {"anthropic-messages", "anthropic"},
	"openai-chat":      {"openai-completions", "openai"},
	"openai-responses": {"openai-responses", "openai"},
	"gemini":           {"google-generative-ai", "google"},
	"bedrock":          {"bedrock-converse-stream", "amazon-bedrock"},
}

// stopOf returns pi's name for the reason why an answer ended.
func stopOf(m rows.Message) string {
	switch reason := m.StopReason; {
	case reason == transcript.StopMaxTokens || reason == transcript.StopContextWindow:
		return "length"
	case reason == transcript.StopAborted || reason == transcript.StopError:
		return string(reason)
	case reason == transcript.StopToolUse || reason == "" && len(m.MessageLine.Message().ToolCalls()) > 0:
		return "toolUse"
	}
	return "stop"
}

// Compaction writes a compaction. One that keeps no message names itself.
func (w *Writer) Compaction(e transcript.Entry, c transcript.Compaction) {
	id := w.unique(e.ID)
	kept := id
	if first, ok := w.Kept(c); ok {
		kept = first.ID
	}
	o := w.add("compaction", id, e.Time, "summary", c.Summary, "firstKeptEntryId", kept, "tokensBefore", c.TokensBefore)
	if c.TokensAfter > 0 {
		o.Int("tokensAfter", int64(c.TokensAfter))
	}
}
