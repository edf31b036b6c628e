package codex

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// A Writer writes a session as a rollout of Codex. The zero value is ready.
//
// A compaction precedes the messages that it keeps: a rollout has no other way to keep
// them. The items are the conversation; the events show it to the user.
type Writer struct {
	rows.Log
	session rows.Session
	model   string
	kinds   map[string]string // call ID -> the type of its item
	used    transcript.Usage  // so far
	// compactions are the indexes of their rows, in order.
	compactions []int
}

// api is the format that items of answers are written in, as in package
// openairesponses.
const api = "openai-responses"

// version is a version of Codex that writes these rows.
const version = "0.171.0"

// Start begins a session and returns its ID and the name of its file.
func (w *Writer) Start(s rows.Session) (id, file string) {
	s.ID = rows.UUID(cmp.Or(s.ID, s.Key))
	w.session, w.kinds = s, map[string]string{}
	at := rows.Stamp(s.Created)
	w.add("session_meta", transcript.Entry{Time: s.Created}, rows.Object(
		"id", s.ID, "timestamp", at, "cwd", s.Dir, "originator", "codex_cli_rs", "cli_version", version, "source", "cli",
	))
	if s.Title != "" {
		w.Title(s.Title, transcript.Entry{Time: s.Created})
	}
	return s.ID, path.Join("sessions", at[:4], at[5:7], at[8:10], "rollout-"+at[:13]+"-"+at[14:16]+"-"+at[17:19]+"-"+s.ID)
}

func (w *Writer) add(kind string, e transcript.Entry, payload *jsontext.Object) {
	w.Add(rows.Object("timestamp", rows.Stamp(e.Time), "type", kind, "payload", payload.End()))
}

func (w *Writer) event(e transcript.Entry, members ...any) {
	w.add("event_msg", e, rows.Object(members...))
}

// Title writes the name of the session.
func (w *Writer) Title(name string, e transcript.Entry) {
	w.event(e, "type", "thread_name_updated", "thread_id", w.session.ID, "thread_name", name)
}

// Message writes the items of a message, and the events that show its texts.
func (w *Writer) Message(m rows.Message) {
	e := transcript.Entry{ID: m.Entry, Time: m.Time}
	w.Place(m, "")
	switch m.Kind {
	case transcript.TypeAssistant:
		w.answer(m, e)
		return
	case transcript.TypeToolResult:
		w.result(m.Result(), e)
		return
	}
	w.item(e, "type", "message", "role", "user", "content", rows.Array(w.Content(m.Content, part)))
	if slices.ContainsFunc(m.Content, func(b transcript.Block) bool { t, ok := b.(transcript.TextBlock); return ok && isContext(t.Text) }) {
		w.mark()
	}
	if text := m.Message(); text.Text() != "" {
		w.event(e, "type", "user_message", "message", text.Text(), "images", []byte("[]"))
	}
}

// mark makes the texts of the last row texts of the user, even if they begin like a context.
func (w *Writer) mark() { w.Rows[len(w.Rows)-1].Value(rows.Own, []byte(`{"user":true}`)) }

func (w *Writer) item(e transcript.Entry, members ...any) {
	w.add("response_item", e, rows.Object(members...))
}

// turn writes the model of an answer, if it is another one.
func (w *Writer) turn(m rows.Message, e transcript.Entry) {
	if m.Model == w.model {
		return
	}
	w.model = m.Model
	policy := rows.Object("type", "read-only")
	w.add("turn_context", e, rows.Object(
		"cwd", w.session.Dir, "approval_policy", "on-request", "sandbox_policy", policy.End(), "model", m.Model, "summary", "auto",
	))
}

// part returns a text or an image of the user.
func part(b transcript.Block) []byte {
	switch b := b.(type) {
	case transcript.TextBlock:
		return rows.Object("type", "input_text", "text", b.Text).End()
	case transcript.ImageBlock:
		switch b.Source.Type {
		case "base64":
			return rows.Object("type", "input_image", "image_url", "data:"+b.Source.MediaType+";base64,"+b.Source.Data).End()
		case "url":
			return rows.Object("type", "input_image", "image_url", b.Source.URL).End()
		}
	}
	return nil
}

func (w *Writer) answer(m rows.Message, e transcript.Entry) {
	w.turn(m, e)
	for _, b := range m.Content {
		switch b := b.(type) {
		case transcript.ThinkingBlock:
			if item, ok := jsontext.Member(b.Extra["ext"], "item"); ok && m.API == api {
				w.add("response_item", e, itemOf(item, "type", "reasoning", "summary", []byte("[]")))
				continue
			}
			w.Lose(transcript.BlockType(b))
		case transcript.ToolCallBlock:
			w.call(b, e)
		default:
			text, ok := rows.Text(b)
			if !ok {
				w.Lose(transcript.BlockType(b))
				continue
			}
			t, _ := b.(transcript.TextBlock)
			item, _ := jsontext.Member(t.Extra["ext"], "item")
			part := rows.Object("type", "output_text", "text", text)
			w.add("response_item", e, itemOf(item, "type", "message", "role", "assistant", "content", rows.Array([][]byte{part.End()})))
			w.event(e, "type", "agent_message", "message", text)
		}
	}
	if u := m.Usage; u.Input+u.Output+u.CacheRead+u.CacheWrite > 0 {
		w.count(u, e)
	}
}

// itemOf returns an item: the members that its reader has kept, and the others.
func itemOf(kept []byte, members ...any) *jsontext.Object {
	o := rows.Object(members...)
	for name, v := range jsontext.Members(kept) {
		if !slices.Contains(members, any(name)) {
			o.Value(name, v)
		}
	}
	return o
}

func (w *Writer) call(c transcript.ToolCallBlock, e transcript.Entry) {
	kind := "function_call"
	if v, ok := jsontext.Member(c.Extra["ext"], "type"); ok {
		kind, _ = jsontext.String(v)
	}
	kept, _ := jsontext.Member(c.Extra["ext"], "item")
	w.kinds[c.ID] = kind
	input := slices.Clone(rows.Input(c)) // as text, in which nothing else mends it
	if jsontext.MendSurrogates(input) {
		w.Lose("half-surrogate")
	}
	switch kind {
	case "custom_tool_call":
		text, _ := jsontext.Member(input, "input")
		w.add("response_item", e, itemOf(kept, "type", kind, "call_id", c.ID, "name", c.Name, "input", text))
	case "local_shell_call":
		action, _ := jsontext.Member(input, "action")
		w.add("response_item", e, itemOf(kept, "type", kind, "call_id", c.ID, "action", action))
	default:
		w.add("response_item", e, itemOf(kept, "type", "function_call", "call_id", c.ID, "name", c.Name, "arguments", string(input)))
	}
}

func (w *Writer) result(r transcript.ToolResultBlock, e transcript.Entry) {
	kind := "function_call_output"
	if w.kinds[r.CallID] == "custom_tool_call" {
		kind = "custom_tool_call_output"
	}
	if r.IsError {
		w.Lose("error")
	}
	content := w.Content(r.Content, part)
	output := rows.Array(content)
	if len(r.Content) == 1 && len(content) == 1 {
		if text, ok := rows.Text(r.Content[0]); ok {
			output = jsontext.AppendString(nil, text)
		}
	}
	w.item(e, "type", kind, "call_id", r.CallID, "output", output)
}

// count writes the usage of an answer and of all answers so far.
func (w *Writer) count(u transcript.Usage, e transcript.Entry) {
	w.used.Input += u.Input
	w.used.Output += u.Output
	w.used.CacheRead += u.CacheRead
	w.used.CacheWrite += u.CacheWrite
	info := rows.Object("total_token_usage", usageOf(w.used), "last_token_usage", usageOf(u), "model_context_window", rows.Null)
	w.event(e, "type", "token_count", "info", info.End(), "rate_limits", rows.Null)
}

func usageOf(u transcript.Usage) []byte {
	input := u.Input + u.CacheRead + u.CacheWrite
	o := rows.Object("input_tokens", input, "cached_input_tokens", u.CacheRead)
	if u.CacheWrite > 0 {
		o.Int("cache_write_input_tokens", int64(u.CacheWrite))
	}
	o.Int("output_tokens", int64(u.Output))
	o.Int("reasoning_output_tokens", 0)
	o.Int("total_tokens", int64(input+u.Output))
	return o.End()
}

// Compaction writes a compaction before the first message that it keeps. The texts of
// the user that it carries precede the summary, as in those that Codex writes.
func (w *Writer) Compaction(e transcript.Entry, c transcript.Compaction) {
	var history [][]byte
	for _, text := range append(slices.Clone(c.Said), transcript.Carried{Text: heading + c.Summary}) {
		part := rows.Object("type", "input_text", "text", text.Text)
		history = append(history, rows.Object("type", "message", "role", "user", "content", rows.Array([][]byte{part.End()})).End())
	}
	w.add("compacted", e, rows.Object("message", heading+c.Summary, "replacement_history", rows.Array(history)))
	if slices.ContainsFunc(c.Said, func(s transcript.Carried) bool { return isContext(s.Text) }) {
		w.mark()
	}
	at := len(w.Rows) - 1
	if first, ok := w.Kept(c); ok {
		at = first.Row
	}
	for i, row := range w.compactions { // the last one counts
		if row > at {
			w.Move(row, at)
			w.compactions[i] = at
			at++
		}
	}
	w.Move(len(w.Rows)-1, at)
	w.compactions = append(w.compactions, at)
}

// heading begins the summary that the program gives its model.
const heading = "Another language model started to solve this problem and produced a summary of its thinking process. " +
	"You also have access to the state of the tools that were used by that language model. Use this to build on the work " +
	"that has already been done and avoid duplicating work. Here is the summary produced by the other language model, " +
	"use the information in this summary to assist with your own analysis:\n"

// contexts begin the texts that Codex writes into messages of the user.
var contexts = []string{
	"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions instructions>", "<skills_instructions>",
	"<INSTRUCTIONS>", "<turn_aborted>", "<model_switch>", "<collaboration_mode>", "<personality_spec>", "<subagent_notification>",
	"<skill>", "<apps_instructions>", "<plugins_instructions>",
}

func isContext(text string) bool {
	text = strings.TrimSpace(text)
	return slices.ContainsFunc(contexts, func(c string) bool { return strings.HasPrefix(text, c) })
}
