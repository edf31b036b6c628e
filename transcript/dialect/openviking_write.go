package dialect

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/openviking"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

func beginViking(w *Writer, s Session) (output, error) {
	s.ID = w.unique(sessionID(s), "")
	return &vikingOutput{w: w, s: s, dir: path.Join("session", s.ID), calls: map[string]*vikingCall{}, told: map[string]vikingStatus{}, taught: map[string]transcript.Extracted{}}, nil
}

// vikingOutput writes one session. It holds the messages until the end, because
// later entries decide which are archived.
type vikingOutput struct {
	w        *Writer
	s        Session
	dir      string
	messages []vikingMessage
	marks    []vikingMark
	used     []string
	taught   map[string]transcript.Extracted // by commit: its last outcome

	calls map[string]*vikingCall  // by ID: the last one
	told  map[string]vikingStatus // by ID of a call not yet there
	early []timedResult           // results whose calls are not there yet
}

// A vikingStatus is the status of a call, and whether the call had its result.
type vikingStatus struct {
	status string
	at     time.Time
	ended  bool
}

// A vikingMessage is a message that is to be written.
type vikingMessage struct {
	id    string
	from  string // the ID that it was read with
	role  transcript.Role
	parts []vikingPart
	at    time.Time
	ids   []string // of its entries
}

// A vikingPart is a part of a message: its JSON, or a call.
type vikingPart struct {
	json []byte
	call *vikingCall
}

// A vikingCall is a tool part. Its result and its status may come later.
type vikingCall struct {
	transcript.ToolCallBlock
	told   string // status beyond the result
	ended  bool   // it has a result, or a final status
	failed bool
	output string
	at     time.Time // of the result
}

// vikingTime formats a time for every version of Python that OpenViking runs on.
func vikingTime(t time.Time) string {
	if t.IsZero() {
		t = time.Unix(0, 0) // the program reads no message without a time
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000-07:00")
}

func (v *vikingOutput) exchange(x *exchange) error {
	if len(x.answer)+len(x.results) > 0 {
		v.answer(x)
	}
	if len(x.said) == 0 {
		return nil
	}
	var parts []vikingPart
	for _, b := range x.said {
		parts = v.part(parts, x, b)
	}
	v.message(x.saidID, transcript.RoleUser, parts, x.saidAt, []string{x.saidID})
	return nil
}

// answer takes an answer with the results of its calls. A result whose call is
// not in the answer belongs to an earlier call, or waits for its call:
// mini-claw wrote results first.
func (v *vikingOutput) answer(x *exchange) {
	results := slices.DeleteFunc(slices.Clone(x.results), func(r timedResult) bool { return r.id == "" })
	var parts []vikingPart
	for _, b := range x.answer {
		c, ok := b.(transcript.ToolCallBlock)
		if !ok {
			parts = v.part(parts, x, b)
			continue
		}
		call := &vikingCall{ToolCallBlock: c}
		for _, from := range []*[]timedResult{&results, &v.early} {
			i := slices.IndexFunc(*from, func(r timedResult) bool { return r.CallID == c.ID })
			if i >= 0 {
				call.end(x, (*from)[i])
				*from = slices.Delete(*from, i, i+1)
				break
			}
		}
		if told, ok := v.told[c.ID]; ok && told.ended == call.ended {
			call.tell(told.status, told.at)
		}
		delete(v.told, c.ID)
		v.calls[c.ID] = call
		parts = append(parts, vikingPart{call: call})
	}
	for _, r := range results {
		if call := v.calls[r.CallID]; call != nil && !call.ended {
			call.end(x, r)
			continue
		}
		v.early = append(v.early, r)
	}
	if len(x.answer) > 0 {
		ids := slices.DeleteFunc(slices.Clone(x.ids), func(id string) bool { return id == x.saidID })
		v.message(x.answerID, transcript.RoleAssistant, parts, x.answerAt, ids)
	}
}

// end takes the result of a call in any status.
func (c *vikingCall) end(x *exchange, r timedResult) {
	c.ended, c.failed, c.output, c.at, c.told = true, r.IsError, x.resultText(r.ToolResultBlock), r.at, ""
}

// tell records a status of a call. Other values are ignored.
func (c *vikingCall) tell(status string, at time.Time) {
	switch status {
	case openviking.Completed, openviking.Failed:
		if !c.ended {
			c.ended, c.at = true, at
		}
	case openviking.Pending, openviking.Running:
	default:
		return
	}
	c.told = status
}

// status records a tool status with its call, or keeps it until the call is written.
// A later result overrides it.
func (v *vikingOutput) status(x *exchange, s transcript.ToolStatus, at time.Time) {
	of := func(id string) bool { return id == s.CallID }
	asked := slices.ContainsFunc((transcript.Message{Content: x.answer}).ToolCalls(), func(c transcript.ToolCallBlock) bool { return of(c.ID) })
	if call := v.calls[s.CallID]; call != nil && !asked {
		call.tell(s.Status, at)
		return
	}
	ended := slices.ContainsFunc(x.results, func(r timedResult) bool { return of(r.CallID) && r.id != "" })
	v.told[s.CallID] = vikingStatus{s.Status, at, ended}
}

func (v *vikingOutput) part(parts []vikingPart, x *exchange, b transcript.Block) []vikingPart {
	var o *jsontext.Object
	switch b := b.(type) {
	case transcript.TextBlock:
		o = rows.Object("type", "text", "text", b.Text)
	case transcript.ContextBlock:
		o = rows.Object("type", "context", "uri", b.URI, "context_type", b.Kind, "abstract", b.Abstract)
	default:
		x.losses[transcript.BlockType(b)]++
		return parts
	}
	return append(parts, vikingPart{json: o.End()})
}

func (v *vikingOutput) line(m vikingMessage) []byte {
	var parts [][]byte
	for _, p := range m.parts {
		if p.call != nil {
			p.json = v.tool(p.call)
		}
		parts = append(parts, p.json)
	}
	return append(rows.Object("id", m.id, "role", string(m.role), "parts", parts, "created_at", vikingTime(m.at)).End(), '\n')
}

func (v *vikingOutput) tool(c *vikingCall) []byte {
	skill, _ := jsontext.String(c.Extra["skill_uri"])
	o := rows.Object(
		"type", "tool", "tool_id", c.ID, "tool_name", c.Name, "tool_uri", "viking://session/"+v.s.ID+"/tools/"+safeName(c.ID),
		"skill_uri", skill, "tool_status", c.status(),
	)
	if input := rows.Input(c.ToolCallBlock); string(input) != "{}" {
		o.Value("tool_input", input)
	}
	o.OptString("tool_output", c.output)
	return o.End()
}

func (c *vikingCall) status() string {
	switch {
	case c.told != "":
		return c.told
	case c.failed:
		return openviking.Failed
	case c.ended:
		return openviking.Completed
	}
	return openviking.Pending
}

// over reports whether the call has ended with content for a file.
func (c *vikingCall) over() bool {
	return c.ended && (c.output != "" || c.told != openviking.Pending && c.told != openviking.Running)
}

// record returns the file about a call that is over.
func (v *vikingOutput) record(c *vikingCall) []byte {
	return rows.Object(
		"tool_id", c.ID, "tool_name", c.Name, "session_id", v.s.ID, "input", rows.Input(c.ToolCallBlock),
		"output", c.output, "status", c.status(), "time", rows.Object("created", vikingTime(c.at)),
	).End()
}

// message adds a message. One without parts is empty and left out. If a message
// was read as several answers, they become one message again.
func (v *vikingOutput) message(id string, role transcript.Role, parts []vikingPart, at time.Time, ids []string) {
	if len(parts) == 0 {
		return
	}
	of, _, more := strings.Cut(id, "#")
	if n := len(v.messages) - 1; more && n >= 0 && v.messages[n].from == of && v.messages[n].role == role {
		m := &v.messages[n]
		m.parts, m.ids = append(m.parts, parts...), append(m.ids, ids...)
		return
	}
	if !strings.HasPrefix(id, "msg_") || more {
		id = "msg_" + hexOf(fmt.Sprintf("%s/%d/%s", v.s.ID, len(v.messages)+1, id), 32)
	}
	v.messages = append(v.messages, vikingMessage{id, of, role, parts, at, ids})
}

func (m vikingMessage) first() string {
	for _, p := range m.parts {
		if text, ok := jsontext.String(fields.Of(p.json)["text"]); ok && p.call == nil {
			return text
		}
	}
	return ""
}
