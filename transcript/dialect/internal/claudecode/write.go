package claudecode

import (
	"cmp"
	"path"
	"strings"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// A Writer writes a session as Claude Code does: rows that each name the one before.
// The zero value is ready.
type Writer struct {
	rows.Log
	session rows.Session
	leaf    string
}

// api is the format that the rows are written in, as in package anthropic.
const api = "anthropic"

// version is a version of Claude Code that writes these rows.
const version = "2.1.0"

// Start begins a session and returns its ID and the name of its file. The program
// looks for the file in the folder of the project.
func (w *Writer) Start(s rows.Session) (id, file string) {
	s.ID = rows.UUID(cmp.Or(s.ID, s.Key))
	w.session = s
	w.Title(s.Title, transcript.Entry{}) // even if it is empty: a file without rows is not a session
	project := rows.Folder(s.Dir, func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	})
	return s.ID, path.Join("projects", project, s.ID)
}

// Title writes the name of the session.
func (w *Writer) Title(name string, _ transcript.Entry) {
	w.Add(rows.Object("type", "custom-title", "customTitle", name, "sessionId", w.session.ID))
}

// add adds a row below parent, or without one if that is empty. Every export gives an
// entry the same ID.
func (w *Writer) add(parent, kind string, e transcript.Entry, members ...any) {
	w.Add(rows.Object(append([]any{
		"parentUuid", rows.OrNull(parent), "isSidechain", false, "userType", "external", "cwd", w.session.Dir, "sessionId", w.session.ID,
		"version", version, "gitBranch", "", "type", kind, "uuid", e.ID, "timestamp", rows.Stamp(e.Time),
	}, members...)...))
	w.leaf = e.ID
}

// entry returns the ID and the time of the row of an entry.
func (w *Writer) entry(e transcript.Entry) transcript.Entry {
	id := e.ID
	if id != "" && rows.UUID(id) != id { // it may be unique only within the session
		id = rows.UUID(w.session.ID + "/" + id)
	}
	return transcript.Entry{ID: w.Unique(id, func(seed string) string { return rows.UUID(w.session.ID + "/" + seed) }), Time: e.Time}
}

// Message writes a message.
func (w *Writer) Message(m rows.Message) {
	if m.MadeUp() { // the program makes one up itself
		return
	}
	e := w.entry(transcript.Entry{ID: m.Entry, Time: m.Time})
	w.Place(m, e.ID)
	if m.Kind == transcript.TypeAssistant {
		w.answer(m, e)
		return
	}
	content := m.Content
	if m.Kind == transcript.TypeToolResult {
		r := m.Result()
		r.CallID, r.Extra, content = callID(r.CallID), nil, r.Content
		o := rows.Object("tool_use_id", r.CallID, "type", "tool_result", "content", w.Content(content, block))
		o.OptBool("is_error", r.IsError)
		w.user(e, [][]byte{o.End()})
		return
	}
	if said := m.Message(); said.Plain() {
		w.user(e, said.Text())
		return
	}
	w.user(e, w.Content(content, block))
}

func (w *Writer) user(e transcript.Entry, content any) {
	w.add(w.leaf, transcript.TypeUser, e, "message", rows.Object("role", "user", "content", content))
}

// block returns a text, an image or a document as the API takes it.
func block(b transcript.Block) []byte {
	switch b := b.(type) {
	case transcript.TextBlock:
		return rows.Object("type", "text", "text", b.Text).End()
	case transcript.ImageBlock:
		return media("image", b.Source)
	case transcript.DocumentBlock:
		return media("document", b.Source)
	}
	return nil
}

func media(kind string, s transcript.Source) []byte {
	if s.Type != "base64" {
		return nil
	}
	return rows.Object("type", kind, "source", rows.Object("type", s.Type, "media_type", s.MediaType, "data", s.Data).End()).End()
}

func (w *Writer) answer(m rows.Message, e transcript.Entry) {
	content := w.Content(m.Content, func(b transcript.Block) []byte {
		switch b := b.(type) {
		case transcript.ThinkingBlock: // only the API that signed it takes it
			if m.API == api && b.Signature != "" {
				return rows.Object("type", "thinking", "thinking", b.Thinking, "signature", b.Signature).End()
			}
		case transcript.RedactedThinkingBlock:
			if m.API == api {
				return rows.Object("type", "redacted_thinking", "data", b.Data).End()
			}
		case transcript.ToolCallBlock:
			return rows.Object("type", "tool_use", "id", callID(b.ID), "name", b.Name, "input", rows.Input(b)).End()
		}
		return block(b)
	})
	u := m.Usage
	usage := rows.Object("input_tokens", u.Input, "cache_creation_input_tokens", u.CacheWrite, "cache_read_input_tokens", u.CacheRead, "output_tokens", u.Output)
	w.add(w.leaf, transcript.TypeAssistant, e, "requestId", rows.Opt(m.RequestID), "message", rows.Object(
		"id", "msg_"+e.ID, "type", "message", "role", "assistant", "model", m.Model, "content", content,
		"stop_reason", rows.OrNull(string(m.StopReason)), "stop_sequence", rows.Null, "usage", usage,
	))
}

// callID returns an ID of a call that the API takes.
func callID(id string) string {
	if id != "" && len(id) <= 64 && strings.Trim(id, callAlphabet) == "" {
		return id
	}
	return "toolu_" + strings.ReplaceAll(rows.UUID(id), "-", "")
}

const callAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// Compaction writes a boundary and a summary. The boundary names the messages that the
// program puts after the summary.
func (w *Writer) Compaction(e transcript.Entry, c transcript.Compaction) {
	summary := w.entry(e)
	boundary := transcript.Entry{ID: rows.UUID(summary.ID + "/boundary"), Time: e.Time}
	about := rows.Object("trigger", "auto", "preTokens", c.TokensBefore)
	if first, ok := w.Kept(c); ok {
		about.Value("preservedSegment", rows.Object("headUuid", first.ID, "anchorUuid", summary.ID, "tailUuid", w.leaf).End())
	}
	w.add("", "system", boundary, "logicalParentUuid", rows.Opt(w.leaf), "subtype", "compact_boundary",
		"content", "Conversation compacted", "isMeta", false, "level", "info", "compactMetadata", about)
	w.add(boundary.ID, transcript.TypeUser, summary, "isCompactSummary", true, "isVisibleInTranscriptOnly", true,
		"message", rows.Object("role", "user", "content", continued+c.Summary))
}

// continued begins the summary that the program gives its model.
const continued = "This session is being continued from a previous conversation that ran out of context. " +
	"The summary below covers the earlier portion of the conversation.\n\n"
