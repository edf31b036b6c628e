package openviking

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A Reader reads the messages of OpenViking. A message is a list of parts; a
// tool part is a call and, once it has ended, its result. So the parts up to
// the last of a run of tool parts become an answer, their results follow, and
// later parts are the next answer.
//
// A "pending" or "running" call without output has no result: the fold reports
// it. A transcript.ToolStatus records "running", and after the result of an
// unfinished call with output its status. If the program has moved an output out
// of the message, the result is the remaining text, as a model saw it. In a
// session folder the file about the call may contain a result, if the program
// was stopped before it changed the message.
type Reader struct {
	// Tool returns the content of the file about a call, or nil. It may be nil
	// itself.
	Tool func(id string) fields.Record
}

// Genuine implements the interface of a program.
func (Reader) Genuine(r fields.Record) bool {
	return r["role"] != nil && (r["parts"] != nil || r["content"] != nil)
}

// Decode implements the interface of a program.
func (v Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := cmp.Or(r.Str("id"), fields.AtOffset(offset))
	role := transcript.Role(r.Str("role"))
	if r["role"] == nil {
		return nil, fields.Malformed("no role")
	}
	if role != transcript.RoleUser && role != transcript.RoleAssistant {
		return fields.Entries(id, fields.Time(r["created_at"]), transcript.Unknown{Kind: "message"}), nil
	}
	m := partsOf{role: role, file: v.Tool}
	if parts := r["parts"]; parts != nil && jsontext.IsArray(parts) {
		for part := range jsontext.Elements(parts) {
			m.add(fields.Of(part), part)
		}
	} else if content, ok := r.Content("content"); ok && parts == nil {
		m.content = content
	} else {
		return nil, fields.Malformed(`message: unusable "parts"`)
	}
	m.flush()
	if len(m.bodies) == 0 {
		m.say(transcript.MessageLine{Kind: string(role), Role: role, Content: []transcript.Block{}})
	}
	made := make([]transcript.Entry, len(m.bodies))
	for i, b := range m.bodies {
		made[i] = transcript.Entry{ID: id, Time: fields.Time(r["created_at"]), Body: b}
		if at := m.times[i]; !at.IsZero() {
			made[i].Time = at
		}
		if i > 0 {
			made[i].ID = id + "#" + strconv.Itoa(i+1)
		}
	}
	return made, nil
}

// partsOf makes fragments of the parts of a message.
type partsOf struct {
	role    transcript.Role
	file    func(id string) fields.Record
	content []transcript.Block // of the fragment at hand
	results []result
	told    []transcript.Body // the status of calls that have not ended
	tools   bool              // a tool part has been seen since the last flush
	bodies  []transcript.Body
	times   map[int]time.Time // of bodies that have one of their own
}

// result is the result of a call with its time.
type result struct {
	transcript.ToolResultBlock
	at time.Time
}

// The statuses of a tool part.
const (
	Pending   = "pending"
	Running   = "running"
	Completed = "completed"
	Failed    = "error"
)

func (m *partsOf) say(f transcript.MessageLine) { m.bodies = append(m.bodies, f) }

func (m *partsOf) flush() {
	if len(m.content) > 0 {
		m.say(fields.WithContent(transcript.MessageLine{Kind: string(m.role), Role: m.role}, m.content, true))
	}
	for _, r := range m.results {
		if m.times == nil {
			m.times = map[int]time.Time{}
		}
		m.times[len(m.bodies)] = r.at
		m.say(transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{r.ToolResultBlock}})
	}
	m.bodies = append(m.bodies, m.told...)
	m.content, m.results, m.told, m.tools = nil, nil, nil, false
}

func (m *partsOf) add(p fields.Record, raw []byte) {
	kind := p.Text("type")
	if kind == "" && jsontext.IsString(p["text"]) {
		kind = "text" // as the program reads it
	}
	if m.tools && kind != "tool" {
		m.flush()
	}
	switch kind {
	case "text":
		m.content = append(m.content, transcript.TextBlock{Text: p.Text("text")})
	case "context":
		m.content = append(m.content, transcript.ContextBlock{URI: p.Text("uri"), Kind: p.Text("context_type"), Abstract: p.Text("abstract")})
	case "image", "image_url":
		m.content = append(m.content, imageOf(p, raw))
	case "tool":
		m.tool(p)
	default:
		if b, err := transcript.UnmarshalBlock(raw); err == nil {
			m.content = append(m.content, b)
			return
		}
		// No type: it is kept in a block that no model is shown.
		o := jsontext.AppendObject(nil)
		o.String("type", "part")
		o.Value("part", raw)
		m.content = append(m.content, transcript.RawBlock{JSON: o.End()})
	}
}

func (m *partsOf) tool(p fields.Record) {
	call := transcript.ToolCallBlock{ID: p.Text("tool_id"), Name: p.Text("tool_name"), Input: json.RawMessage(`{}`)}
	if input := p["tool_input"]; input != nil {
		call.Input = slices.Clone(input)
	}
	if uri := p.Str("skill_uri"); uri != "" {
		call.Extra = transcript.Extra{"skill_uri": jsontext.AppendString(nil, uri)}
	}
	if m.role == transcript.RoleAssistant {
		m.content, m.tools = append(m.content, call), true
	} else { // a message of the user that carries the tools of the answer before it
		m.flush()
		m.say(transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant, Content: []transcript.Block{call}})
	}
	output, status := p["tool_output"], p.Str("tool_status")
	ended := func() bool { return fields.Text(output) != "" || status == Completed || status == Failed }
	var file fields.Record
	if m.file != nil {
		file = m.file(call.ID)
	}
	if !ended() && file != nil {
		output, status = file["output"], file.Str("status")
	}
	if ended() {
		block := transcript.ToolResultBlock{CallID: call.ID, IsError: status == Failed}
		block = block.WithContent(transcript.TextBlock{Text: fields.Text(output)})
		m.results = append(m.results, result{ToolResultBlock: block, at: fields.Time(file.Object("time")["created"])})
	}
	if status == Running || status == Pending && ended() {
		m.told = append(m.told, transcript.ToolStatus{CallID: call.ID, Status: status})
	}
	if m.role == transcript.RoleUser {
		m.flush()
	}
}

// imageOf returns the block of an image part, whose URL may hold the data.
func imageOf(p fields.Record, raw []byte) transcript.Block {
	url := cmp.Or(p.Str("image_url"), p.Object("image_url").Str("url"))
	if kind, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); ok && strings.HasPrefix(url, "data:") {
		return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: kind, Data: data}}
	}
	if url == "" {
		return transcript.RawBlock{JSON: slices.Clone(raw)}
	}
	return transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: url}}
}
