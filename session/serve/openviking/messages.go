package openviking

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

type (
	messageBody struct {
		Role    string            `json:"role"`
		Content string            `json:"content,omitempty"`
		Parts   []json.RawMessage `json:"parts,omitempty"` // instead of the content
	}
	batchBody struct {
		Messages []messageBody `json:"messages"` // at most 100
	}
	batchResult struct {
		ID           string `json:"session_id"`
		MessageCount int    `json:"message_count"`
		Added        int    `json:"added"`
	}
	message struct {
		ID    string           `json:"id"`
		Role  transcript.Role  `json:"role"`
		Parts []map[string]any `json:"parts"`
	}
)

// maxBatch is the largest number of messages in a batch.
const maxBatch = 100

func (sf *surface) add(q *serve.Request, body messageBody) (out sessionInfo, err error) {
	if !q.Principal.May(sf.agent) {
		return out, fs.ErrNotExist
	}
	items, err := body.items()
	if err != nil {
		return out, err
	}
	id, n, err := sf.append(q, items)
	return sessionInfo{ID: id, MessageCount: &n}, err
}

func (sf *surface) addAll(q *serve.Request, body batchBody) (out batchResult, err error) {
	if !q.Principal.May(sf.agent) {
		return out, fs.ErrNotExist
	}
	if n := len(body.Messages); n == 0 || n > maxBatch {
		return out, serve.Invalid("a batch has between 1 and 100 messages")
	}
	var items []transcript.Item
	for _, m := range body.Messages {
		more, err := m.items()
		if err != nil {
			return out, err
		}
		items = append(items, more...)
	}
	id, n, err := sf.append(q, items)
	return batchResult{id, n, len(body.Messages)}, err
}

// append appends items together, and returns the number of live messages.
func (sf *surface) append(q *serve.Request, items []transcript.Item) (id string, n int, err error) {
	s, err := sf.findOrCreate(q)
	if err != nil {
		return "", 0, err
	}
	idem := q.Header.Get("Idempotency-Key")
	if idem != "" {
		idem = "http:" + idem
	}
	n, err = sf.counts.append(q.Context(), s, idem, items)
	return s.Ref().ID, n, err
}

// items returns the message, with the results of its tool parts.
func (m messageBody) items() (items []transcript.Item, err error) {
	if role := transcript.Role(m.Role); len(m.Parts) > 0 && (role == transcript.RoleUser || role == transcript.RoleAssistant) {
		return itemsOf(m.Role, m.Parts)
	}
	text, err := said.Message(m.Role, m.Content, nil)
	if err != nil {
		return nil, serve.Invalid(err.Error())
	}
	return []transcript.Item{text}, nil
}

// itemsOf returns a message of parts, read as a line of OpenViking.
func itemsOf(role string, parts []json.RawMessage) (items []transcript.Item, err error) {
	for i, raw := range parts {
		if parts[i], err = checkPart(raw); err != nil {
			return nil, serve.Invalid(err.Error())
		}
	}
	line, err := json.Marshal(messageBody{Role: role, Parts: parts})
	if err != nil {
		return nil, err
	}
	for rec, err := range dialect.OpenViking.Scan(bytes.NewReader(line), int64(len(line)), &transcript.ScanOptions{Final: true}) {
		switch body := rec.Entry.Body.(type) {
		case transcript.MessageLine:
			m := body.Message()
			if err := said.Check(m); err != nil {
				return nil, serve.Invalid(err.Error())
			}
			items = append(items, m)
		case transcript.ToolStatus:
			items = append(items, body)
		default:
			return nil, cmp.Or(err, serve.Invalid("the message is not readable"))
		}
	}
	return items, nil
}

// toolStatuses are the values of tool_status.
var toolStatuses = []string{"pending", "running", "completed", "error"}

// checkPart returns a part with the default type of its context. The text of an error is
// meant for the client.
func checkPart(raw json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Type     string          `json:"type"`
		Context  string          `json:"context_type"`
		Status   string          `json:"tool_status"`
		ToolID   string          `json:"tool_id"`
		ToolName string          `json:"tool_name"`
		Input    map[string]any  `json:"tool_input"`
		Image    json.RawMessage `json:"image_url"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil, errors.New("a part is not an object of the form that the route takes")
	}
	switch p.Type {
	case "text":
	case "context":
		if p.Context == "" {
			return with(raw, "context_type", said.ContextTypes[0])
		}
		if !slices.Contains(said.ContextTypes, p.Context) {
			return nil, errors.New("the context_type of a part is neither memory, resource nor skill")
		}
	case "tool":
		if p.ToolID == "" || p.ToolName == "" {
			return nil, errors.New("a tool part needs a tool_id and a tool_name")
		}
		if p.Status != "" && !slices.Contains(toolStatuses, p.Status) {
			return nil, errors.New("the tool_status of a part is neither pending, running, completed nor error")
		}
	case "image_url":
		var of struct{ URL string }
		if json.Unmarshal(p.Image, &of.URL) != nil && json.Unmarshal(p.Image, &of) != nil || of.URL == "" {
			return nil, errors.New("an image_url part needs a URL")
		}
	default:
		return nil, errors.New("the type of a part is neither text, context, tool nor image_url")
	}
	return raw, nil
}

// with returns an object with another member.
func with(raw json.RawMessage, name, value string) (json.RawMessage, error) {
	members := map[string]any{}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	members[name] = value
	return json.Marshal(members)
}

// messagesOf returns messages as OpenViking shows them: a call and its result are one part.
// Messages without an entry, which only models need, are left out.
func messagesOf(messages []transcript.Message) []message {
	out := []message{}
	calls := map[string]map[string]any{} // the parts of calls, by ID
	for _, m := range messages {
		first := slices.IndexFunc(m.Origins, func(o transcript.Origin) bool { return o.Entry != "" })
		if first < 0 {
			continue
		}
		parts, merged := []map[string]any{}, false
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				parts = append(parts, map[string]any{"type": "text", "text": b.Text})
			case transcript.ContextBlock:
				parts = append(parts, map[string]any{"type": "context", "uri": b.URI, "context_type": b.Kind, "abstract": b.Abstract})
			case transcript.ToolCallBlock:
				calls[b.ID] = map[string]any{"type": "tool", "tool_id": b.ID, "tool_name": b.Name, "tool_input": b.Input}
				parts = append(parts, calls[b.ID])
			case transcript.ToolResultBlock:
				status := "completed"
				if b.IsError {
					status = "error"
				}
				part := calls[b.CallID]
				if merged = part != nil; !merged { // the call is in an archive
					part = map[string]any{"type": "tool", "tool_id": b.CallID}
					parts = append(parts, part)
				}
				part["tool_output"], part["tool_status"] = said.Result(b), status
			case transcript.ImageBlock:
				parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": urlOf(b.Source)}})
			}
		}
		if len(parts) > 0 || !merged {
			out = append(out, message{m.Origins[first].Entry, m.Role, parts})
		}
	}
	return out
}

// urlOf returns the URL of an image, which may hold its data.
func urlOf(of transcript.Source) string {
	if of.Data == "" {
		return of.URL
	}
	return "data:" + of.MediaType + ";base64," + of.Data
}
