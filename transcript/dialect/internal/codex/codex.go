// Package codex reads the rollouts of Codex, of all its generations:
//
//   - lines with a timestamp, a type and a payload, since September 2025;
//   - bare items after a header, before.
//
// The conversation is made of the items that the model was sent (response_item). Most
// events (event_msg) repeat them for the screen. In a file without such items the
// events are the conversation.
//
// A compaction whose summary only the provider can read is set aside, and the messages
// before it stay in the history.
package codex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// A Reader reads one rollout.
type Reader struct {
	rows   []row
	byAt   map[int64]int
	model  string // of the turn at hand
	totals string // of the last count of tokens, "-" if records count them
	header bool
	items  bool // the file holds items of messages, so events repeat them
	// For events and for items: the first row of the last answer, and of the answer that
	// the next row can continue, else none.
	answer, open map[bool]int
	// The last answer with a text, which may be a summary.
	wrote int
	text  string
}

// row is a line that can be part of the history.
type row struct {
	offset int64
	id     string
	event  bool   // from an event
	gone   string // the name of the aside that it has become
	text   string // the summary that an answer wrote
	// first is the row of the first line of the answer, prompt for a text of the user, at
	// which a turn begins, else none.
	first       int
	by, request string // the model of an answer, and the ID of its request
	usage       transcript.Usage
}

const (
	none   = -1
	prompt = -2
)

// New returns a reader of one rollout.
func New() *Reader {
	return &Reader{byAt: map[int64]int{}, answer: map[bool]int{true: none, false: none}, open: map[bool]int{true: none, false: none}}
}

// asides are the types of records and events that no model is shown.
var asides = []string{
	"turn_context", "world_state", "token_usage_record", "inter_agent_communication_metadata", "security_risk_score", "realtime_item",
	"rollout_reference", "ghost_snapshot", "additional_tools", "tool_search_call", "tool_search_output",
	"compaction", "compaction_summary", "context_compaction", "compaction_trigger",
}

// Genuine implements the interface of a program.
func (*Reader) Genuine(r fields.Record) bool {
	return r.Str("type") != "" && (r["timestamp"] != nil && r["payload"] != nil || r["role"] != nil && r["content"] != nil)
}

// Decode implements the interface of a program.
func (*Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	kind, payload := r.Str("type"), r.Object("payload")
	if r["payload"] == nil { // bare
		payload = r
		switch {
		case kind != "":
			kind = "response_item"
		case r["record_type"] != nil:
			kind = r.Str("record_type")
			return fields.Entries(fields.AtOffset(offset), fields.Time(r["timestamp"]), fields.Aside(kind)), nil
		case r["id"] != nil && r["timestamp"] != nil:
			kind = "session_meta"
		default:
			return nil, fields.Malformed("no type")
		}
	}
	if r[rows.Own] != nil && payload != nil {
		payload[rows.Own] = r[rows.Own]
	}
	id := fields.AtOffset(offset)
	var bodies []transcript.Body
	switch kind {
	case "session_meta":
		id = cmp.Or(payload.Str("id"), id)
		created := fields.Time(payload["timestamp"])
		if created.IsZero() {
			created = fields.Time(r["timestamp"])
		}
		bodies = append(bodies, transcript.Header{Created: created})
	case "response_item":
		bodies = item(payload)
	case "event_msg":
		bodies = event(payload)
	case "compacted":
		bodies = append(bodies, compacted(payload))
	case "inter_agent_communication":
		bodies = append(bodies, fields.Aside(kind))
		if text := payload.Str("content"); text != "" {
			bodies[0] = fields.User(transcript.TextBlock{Text: text})
		}
	default:
		bodies = append(bodies, other(kind))
	}
	return fields.Entries(id, fields.Time(r["timestamp"]), bodies...), nil
}

func other(kind string) transcript.Body {
	if slices.Contains(asides, kind) {
		return fields.Aside(kind)
	}
	return transcript.Unknown{Kind: kind}
}

// compacted returns the compaction of a record: its summary and, from the history that
// replaced the older one, the texts of the user.
func compacted(r fields.Record) transcript.Body {
	c := transcript.Compaction{Summary: r.Str("message")}
	if c.Summary == "" {
		return fields.Aside("compacted")
	}
	for old := range r.Objects("replacement_history") {
		text := joined(old.Elements("content"), "text", "")
		if old.Str("role") == "user" && text != "" && text != c.Summary && (r[rows.Own] != nil || !isContext(text)) {
			c.Said = append(c.Said, transcript.Carried{Text: text})
		}
	}
	return c
}

// Learn implements the interface of a program.
func (c *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	payload := r.Object("payload")
	kind, detail := r.Str("type"), payload.Str("type")
	switch body := made[0].Body.(type) {
	case transcript.Compaction:
		c.add(row{offset: offset, id: made[0].ID, first: none, text: c.summarizer(body.Summary)})
	case transcript.MessageLine:
		event := kind == "event_msg"
		c.items = c.items || !event
		at := row{offset: offset, id: made[0].ID, event: event, by: c.model, first: none}
		switch {
		case body.Kind == transcript.TypeUser:
			at.first, c.text = prompt, ""
		case body.Role == transcript.RoleAssistant:
			if at.first = c.open[event]; at.first == none {
				at.first = len(c.rows)
			}
			c.answer[event] = at.first
			if text := body.Message().Text(); text != "" && !event {
				c.wrote, c.text = len(c.rows), text
			}
		}
		c.add(at)
		if len(made) == 1 && at.first >= 0 { // and no result after it
			c.open[event] = at.first
		}
	default:
		switch {
		case kind == "turn_context":
			c.model = payload.Str("model")
		case kind == "token_usage_record":
			c.totals = recorded
			c.used(payload.Object("usage"), payload.Str("response_id"))
		case detail == "token_count":
			c.count(payload.Object("info"))
		case detail == "thread_rolled_back":
			c.rollBack(payload.Number("num_turns"))
		}
	}
}

func (c *Reader) add(r row) {
	c.byAt[r.offset], c.open[r.event] = len(c.rows), none
	c.rows = append(c.rows, r)
}

// recorded marks a rollout with a record of the usage after each answer.
const recorded = "-"

// summarizer sets aside the answer before a compaction if it wrote the summary, and
// returns that. The program puts words of its own before it.
func (c *Reader) summarizer(message string) string {
	if c.text == "" || !strings.HasSuffix(message, "\n"+c.text) {
		return ""
	}
	c.rows[c.wrote].gone = "repeat"
	return c.text
}

// count gives the last answer its usage. A count with the same totals is a repeat.
func (c *Reader) count(info fields.Record) {
	totals := string(info["total_token_usage"])
	if totals != "" && totals != c.totals && c.totals != recorded {
		c.totals = totals
		c.used(info.Object("last_token_usage"), "")
	}
}

// used gives the last answer its usage and the ID of its request.
func (c *Reader) used(u fields.Record, request string) {
	if n := c.answer[!c.items]; n >= 0 {
		read, written := u.Number("cached_input_tokens"), u.Number("cache_write_input_tokens")
		c.rows[n].request = request
		c.rows[n].usage = transcript.Usage{Input: max(u.Number("input_tokens")-read-written, 0), Output: u.Number("output_tokens"), CacheRead: read, CacheWrite: written}
	}
}

// rollBack removes the last turns, each from a text of the user on.
func (c *Reader) rollBack(turns int) {
	for n := len(c.rows) - 1; n >= 0 && turns > 0; n-- {
		if r := &c.rows[n]; r.gone == "" {
			r.gone = "branch"
			if r.first == prompt && r.event != c.items {
				turns--
			}
		}
	}
}

// Settle implements the interface of a program.
func (*Reader) Settle() {}

// Place implements the interface of a program.
func (c *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if _, ok := made[0].Body.(transcript.Header); ok {
		if c.header { // of the session that this one was forked from
			made[0].ID, made[0].Body = fields.AtOffset(offset), fields.Aside("session_meta")
		}
		c.header = true
	}
	n, ok := c.byAt[offset]
	if !ok {
		return made
	}
	r := c.rows[n]
	switch {
	case r.event && c.items:
		return fields.SetAside(made, "repeat")
	case r.gone != "":
		return fields.SetAside(made, r.gone)
	}
	if b, ok := made[0].Body.(transcript.Compaction); ok {
		if b.Summary = strings.TrimPrefix(b.Summary, heading); r.text != "" {
			b.Summary = r.text
		}
		for n--; n >= 0 && b.CoversTo == ""; n-- {
			if c.rows[n].gone == "" && c.rows[n].event != c.items {
				b.CoversTo = c.rows[n].id
			}
		}
		made[0].Body = b
	}
	body, ok := made[0].Body.(transcript.MessageLine)
	if !ok || r.first < 0 {
		return made
	}
	if first := c.rows[r.first]; r.first != n {
		body.Of = first.id
	} else {
		// A line of a call alone has no place for these.
		body.Kind, body.API, body.Model, body.RequestID, body.Usage = transcript.TypeAssistant, api, first.by, first.request, first.usage
	}
	made[0].Body = body
	return made
}

// joined returns the texts of elements as one.
func joined(elements [][]byte, member, between string) string {
	var texts []string
	for _, raw := range elements {
		if s := fields.Of(raw).Str(member); s != "" {
			texts = append(texts, s)
		} else if s, ok := jsontext.String(raw); ok {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, between)
}
