package uistream

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// A message is a UIMessage of the client. The client chooses the IDs of the
// user's messages. An answer is one message, whatever number of model calls it took.
type message struct {
	ID       string          `json:"id"`
	Role     transcript.Role `json:"role"`
	Parts    []part          `json:"parts"`
	Metadata *metadata       `json:"metadata,omitempty"`

	posted       []json.RawMessage  // the parts
	content      []transcript.Block // of the user
	text, before string             // the queued text or the entry, and the entry before it
}

// UnmarshalJSON leaves the parts to [message.decode], and ignores metadata: a client sends
// messages that do not count, with parts and metadata of its application.
func (m *message) UnmarshalJSON(data []byte) error {
	var body struct {
		ID    string
		Role  transcript.Role
		Parts []json.RawMessage
	}
	err := json.Unmarshal(data, &body)
	m.ID, m.Role, m.posted = body.ID, body.Role, body.Parts
	return err
}

// decode decodes the parts of a posted message, and ignores parts of the application.
func (m *message) decode() error {
	for _, data := range m.posted {
		var p part
		switch err := json.Unmarshal(data, &p); {
		case strings.HasPrefix(p.Type, "data-"):
		case err != nil:
			return serve.Invalid("a part of the message has another form")
		default:
			m.Parts = append(m.Parts, p)
		}
	}
	return nil
}

// A part is a part of a [message]. A call of a tool and its result are one part, whose type
// is "tool-" and the name of the tool.
type part struct {
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`
	State      string          `json:"state,omitempty"`
	URL        string          `json:"url,omitempty"`
	MediaType  string          `json:"mediaType,omitempty"`
	Filename   string          `json:"filename,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     any             `json:"output,omitempty"`
	ErrorText  string          `json:"errorText,omitempty"`
	Approval   *approval       `json:"approval,omitempty"`
}

// An approval is a decision on a held call, and without Approved the request for one.
type approval struct {
	ID       string `json:"id"` // the entry of the call
	Approved *bool  `json:"approved,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// metadata of an answer counts the tokens of all its model calls.
type metadata struct {
	Usage usage `json:"usage"`
}

// usage has the members of the SDK's LanguageModelUsage. Input includes cached tokens.
type usage struct {
	Input  int `json:"inputTokens"`
	Output int `json:"outputTokens"`
	Total  int `json:"totalTokens"`
	Cached int `json:"cachedInputTokens"`
}

func (u *usage) add(of transcript.Usage) {
	u.Input += of.Prompt()
	u.Output += of.Output
	u.Cached += of.CacheRead
	u.Total = u.Input + u.Output
}

// blocks returns the content of a message of the user.
func (m message) blocks() (content []transcript.Block, err error) {
	if len(m.ID) > 128 || strings.ContainsAny(m.ID, "\x00\n\r") {
		return nil, serve.Invalid("the ID of the message is longer than 128 bytes, or has line breaks")
	}
	for _, p := range m.Parts {
		switch {
		case p.Type == "text" && p.Text != "":
			content = append(content, transcript.TextBlock{Text: p.Text})
		case p.Type == "file":
			source, ok := sourceOf(p)
			if !ok {
				return nil, serve.Invalid("the URL of a file is neither http, https nor a data URL with base64")
			}
			if strings.HasPrefix(p.MediaType, "image/") {
				content = append(content, transcript.ImageBlock{Source: source})
			} else {
				content = append(content, transcript.DocumentBlock{Source: source, Title: p.Filename})
			}
		}
	}
	if err := said.Check(transcript.Message{Content: content}); err != nil {
		return nil, serve.Invalid(err.Error())
	}
	return content, nil
}

// sourceOf returns the source of a file of the user.
func sourceOf(p part) (s transcript.Source, ok bool) {
	scheme, rest, _ := strings.Cut(p.URL, ":")
	switch strings.ToLower(scheme) {
	case "http", "https":
		return transcript.Source{Type: "url", URL: p.URL}, strings.HasPrefix(rest, "//")
	case "data":
		_, encoded, _ := strings.Cut(rest, ";base64,")
		_, err := base64.StdEncoding.DecodeString(encoded)
		return transcript.Source{Type: "base64", MediaType: p.MediaType, Data: encoded}, encoded != "" && err == nil
	}
	return s, false
}

// fileOf returns the part of an image or a document. Bytes outside of the transcript, or
// at a provider, have no URL.
func fileOf(b transcript.Block) (p part, ok bool) {
	var s transcript.Source
	p = part{Type: "file", MediaType: "application/octet-stream"}
	switch b := b.(type) {
	case transcript.ImageBlock:
		s, p.MediaType = b.Source, "image/*"
	case transcript.DocumentBlock:
		s, p.Filename = b.Source, b.Title
	}
	p.URL, p.MediaType = s.URL, cmp.Or(s.MediaType, p.MediaType)
	switch s.Type {
	case "base64":
		p.URL = "data:" + p.MediaType + ";base64," + s.Data
	case "text":
		p.URL = "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString([]byte(s.Data))
	}
	return p, p.URL != ""
}

// partsOf returns the texts and files of a message of the user, or of a result.
func partsOf(content []transcript.Block) []part {
	parts := []part{}
	for _, b := range content {
		if text := said.Text(b); text != "" {
			parts = append(parts, part{Type: "text", Text: text})
		} else if file, ok := fileOf(b); ok {
			parts = append(parts, file)
		}
	}
	return parts
}

func inputOf(c transcript.ToolCallBlock) json.RawMessage {
	if len(c.Input) == 0 {
		return json.RawMessage("{}")
	}
	return c.Input
}

// outputOf returns the output of a tool: the parts of a result with media, the value of a
// JSON object or array, and otherwise the text.
func outputOf(r transcript.ToolResultBlock) any {
	text := said.Result(r)
	switch data := []byte(strings.TrimSpace(text)); {
	case slices.ContainsFunc(r.Content, transcript.IsMedia):
		return partsOf(r.Content)
	case len(data) > 0 && (data[0] == '{' || data[0] == '[') && json.Valid(data):
		return json.RawMessage(data)
	}
	return text
}

// keyPrefix begins the idempotency keys of messages, which contain the client's IDs of
// the messages. Package serve puts "http:" before it.
const keyPrefix = "ui:"

// answerID returns the ID of the answer to a message of the user.
func answerID(text string) string { return "answer-" + text }

// A state names the head of a session and its last rewind.
type state struct{ head, rewind string }

// messages returns the messages of a session, equal to the messages that the client makes
// of the streams of all answers, and the state that it read first.
func messages(ctx context.Context, s *session.Session) (all []message, at state, err error) {
	r := reader{all: []message{}, names: map[string]string{}, decisions: map[string]transcript.Decision{}, ended: map[string]bool{}, before: map[string]string{}}
	if err := r.scan(ctx, s); err != nil {
		return nil, at, err
	}
	at = r.at
	pending, err := s.Pending(ctx) // first: a text that is drained afterwards is also an entry
	if err != nil {
		return nil, at, err
	}
	var entries []transcript.Entry
	if err := said.Each(ctx, s, func(e transcript.Entry) { entries = append(entries, e) }); err != nil {
		return nil, at, err
	}
	if err := r.scan(ctx, s); err != nil { // the names of later texts
		return nil, at, err
	}
	for _, e := range entries {
		r.add(e)
	}
	r.end()
	for _, queued := range pending.Queued {
		if !slices.ContainsFunc(r.all, func(m message) bool { return m.text == queued.Entry }) {
			r.user(queued.Entry, queued.Message.Content)
		}
	}
	return r.all, at, nil
}

// A reader makes messages of the entries of a conversation.
type reader struct {
	all       []message
	names     map[string]string              // the client's IDs of queued texts
	decisions map[string]transcript.Decision // the last ones, by call
	ended     map[string]bool                // queued texts whose turns ended early
	before    map[string]string              // the entries before the appends of entries

	at         state
	scanned    string // the last entry that scan read
	last, idem string // the entry before its append, and the key of the append
	text       string // the last answered text
}

// scan reads the entries since the last scan.
func (r *reader) scan(ctx context.Context, s *session.Session) error {
	for e, err := range s.Entries(ctx, r.scanned) {
		if err != nil {
			return err
		}
		if e.Part <= 1 {
			r.idem, r.last = e.Idem, r.scanned
		}
		r.scanned = e.ID
		if transcript.IsHead(e.Type()) {
			r.at.head = e.ID
		}
		switch b := e.Body.(type) {
		case transcript.Queued:
			if key, ok := strings.CutPrefix(r.idem, "http:"+keyPrefix); ok {
				r.names[e.ID], _, _ = strings.Cut(key, "\n")
			}
		case transcript.MessageLine:
			r.text = cmp.Or(b.Queued, r.text)
			r.before[cmp.Or(b.Queued, e.ID)] = r.last
		case transcript.Rewind:
			r.at.rewind = e.ID
		case transcript.Decision:
			r.decisions[b.Call+"\n"+b.CallID] = b
		case transcript.Interrupt:
			if b.Ended != "" {
				r.ended[r.text] = true
				r.deny()
			}
		}
	}
	return nil
}

// deny denies calls that still wait at the end of their turn.
func (r *reader) deny() {
	for call, d := range r.decisions {
		if d.Verdict == transcript.Hold {
			d.Verdict = transcript.Reject
			r.decisions[call] = d
		}
	}
}

func (r *reader) add(e transcript.Entry) {
	line, ok := e.Body.(transcript.MessageLine)
	switch {
	case !ok: // a compaction
	case line.Kind == transcript.TypeToolResult:
		for _, b := range line.Content {
			if b, ok := b.(transcript.ToolResultBlock); ok {
				r.result(b)
			}
		}
	case line.Role == transcript.RoleAssistant:
		r.answer(e, line)
	default:
		r.user(cmp.Or(line.Queued, e.ID), line.Content)
	}
}

func (r *reader) user(text string, content []transcript.Block) {
	r.end()
	r.all = append(r.all, message{
		ID: cmp.Or(r.names[text], text), Role: transcript.RoleUser, Parts: partsOf(content),
		content: content, text: text, before: r.before[text],
	})
}

// end adds an empty answer after a text whose turn ended before the first word. The client
// makes one when the stream starts.
func (r *reader) end() {
	if len(r.all) > 0 && r.ended[r.all[len(r.all)-1].text] {
		r.open("")
	}
}

// open returns the answer at the end of the messages, which it adds if it is missing.
func (r *reader) open(entry string) *message {
	if len(r.all) == 0 || r.all[len(r.all)-1].Role != transcript.RoleAssistant {
		if len(r.all) > 0 {
			entry = r.all[len(r.all)-1].text
		}
		r.all = append(r.all, message{ID: answerID(entry), Role: transcript.RoleAssistant, Parts: []part{}, Metadata: &metadata{}})
	}
	return &r.all[len(r.all)-1]
}

// answer adds a line of an answer to the last message.
func (r *reader) answer(e transcript.Entry, line transcript.MessageLine) {
	m := r.open(e.ID)
	if line.Of == "" {
		m.Parts = append(m.Parts, part{Type: "step-start"})
		m.Metadata.Usage.add(line.Usage)
	}
	for _, b := range line.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			m.addText(b.Text)
		case transcript.ThinkingBlock:
			if b.Thinking != "" {
				m.Parts = append(m.Parts, part{Type: "reasoning", Text: b.Thinking, State: "done"})
			}
		case transcript.ToolCallBlock:
			m.Parts = append(m.Parts, r.call(e, b))
		default:
			if file, ok := fileOf(b); ok {
				m.Parts = append(m.Parts, file)
			}
		}
	}
}

// addText adds a text to the text part of the last step.
func (m *message) addText(text string) {
	for i := len(m.Parts) - 1; i >= 0 && m.Parts[i].Type != "step-start"; i-- {
		if m.Parts[i].Type == "text" {
			m.Parts[i].Text += text
			return
		}
	}
	if text != "" {
		m.Parts = append(m.Parts, part{Type: "text", Text: text, State: "done"})
	}
}

// call returns the part of a call without a result.
func (r *reader) call(e transcript.Entry, c transcript.ToolCallBlock) part {
	p := part{Type: "tool-" + c.Name, ToolCallID: c.ID, State: "input-available", Input: inputOf(c)}
	d := r.decisions[e.ID+"\n"+c.ID]
	switch d.Verdict {
	case transcript.Hold:
		p.State, p.Approval = "approval-requested", &approval{ID: e.ID}
	case transcript.Approve:
		p.State, p.Approval = "approval-responded", &approval{ID: e.ID, Approved: new(true), Reason: d.Reason}
	case transcript.Reject:
		p.State, p.Approval = "output-denied", &approval{ID: e.ID, Approved: new(false), Reason: d.Reason}
	}
	return p
}

// result adds the result of a call to the last part of that call.
func (r *reader) result(b transcript.ToolResultBlock) {
	if len(r.all) == 0 {
		return
	}
	parts := r.all[len(r.all)-1].Parts
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		switch {
		case p.ToolCallID != b.CallID || p.ToolCallID == "":
			continue
		case b.IsError:
			p.State, p.ErrorText = "output-error", said.Result(b)
		default:
			p.State, p.Output = "output-available", outputOf(b)
		}
		return
	}
}
