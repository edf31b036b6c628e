package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// The types of the events of managed agents.
const (
	userMessage      = "user.message"
	userInterrupt    = "user.interrupt"
	userConfirmation = "user.tool_confirmation"
	agentMessage     = "agent.message"
	agentThinking    = "agent.thinking"
	agentToolUse     = "agent.tool_use"
	agentToolResult  = "agent.tool_result"
	agentCompacted   = "agent.thread_context_compacted"
	sessionRunning   = "session.status_running"
	sessionIdle      = "session.status_idle"
	sessionError     = "session.error"
	sessionDeleted   = "session.deleted"
	previewStart     = "event_start"
	previewDelta     = "event_delta"
)

// An agentEvent is an event of a session.
type agentEvent struct {
	id    string // its place; that of a message with a draft is the draft's
	entry string // the entry that it was made of
	typ   string
	time  time.Time
	data  object
}

func (e agentEvent) isPreview() bool { return e.typ == previewStart || e.typ == previewDelta }

// agentEvents makes events of the entries of a session, in their order. The same
// entries give the same events with the same IDs, wherever behind the end of an
// answer without calls it begins: nothing of what it keeps outlives that.
type agentEvents struct {
	out  []agentEvent
	size int // lines of the batch

	answer agentAnswer
	drafts map[string]*agentDraft // by key
	calls  map[string]string      // the events of calls, by entry and tool-use ID, and by the latter alone

	held    []string // the events of calls that wait for a person
	asked   bool     // somebody has asked to stop
	decided string   // the last decision on a held call that no answer has followed
	status  string   // of the session; empty is idle
}

// agentAnswer is an answer whose entries are coming.
type agentAnswer struct {
	id    string // its first entry; empty if there is none
	last  transcript.Entry
	n     int // events of its last entry
	calls bool
	stop  transcript.StopReason
	draft string // the event ID of its first message, which its draft has announced
}

// agentDraft is the text that has come of an answer.
type agentDraft struct{ id, text string }

func newAgentEvents() *agentEvents {
	return &agentEvents{drafts: map[string]*agentDraft{}, calls: map[string]string{}}
}

// emit adds an event of an entry, the n-th of it.
func (m *agentEvents) emit(e transcript.Entry, n int, typ string, data object) (id string) {
	id = e.ID + "/" + strconv.Itoa(n)
	ev := agentEvent{id: id, entry: e.ID, typ: typ, time: e.Time, data: data}
	if ev.data == nil {
		ev.data = object{}
	}
	ev.data["type"] = typ
	if !ev.isPreview() {
		ev.data["id"], ev.data["processed_at"] = id, e.Time.UTC()
	}
	switch typ {
	case sessionRunning, sessionIdle:
		m.status = typ
	}
	m.out = append(m.out, ev)
	return id
}

// add takes the next entry and returns the events that follow from it.
func (m *agentEvents) add(e transcript.Entry) []agentEvent {
	m.out = nil
	if e.Part <= 1 {
		m.size = max(e.Batch, 1)
	}
	f, ok := e.Body.(transcript.Fragment)
	if answer := ok && f.Role == transcript.RoleAssistant; answer {
		m.speak(e, f)
		return m.out
	}
	m.ended()
	switch b := e.Body.(type) {
	case transcript.Fragment:
		m.hear(e, b)
	case transcript.Queued:
		if !b.Off {
			if m.status != sessionRunning && len(m.held) == 0 { // what was asked was for a turn before this one
				m.asked = false
			}
			m.emit(e, 0, userMessage, object{"content": agentContent(b.Content)})
		}
	case transcript.Draft:
		m.preview(e, b)
	case transcript.Decision:
		m.decide(e, b)
	case transcript.Compaction:
		m.emit(e, 0, agentCompacted, nil)
	case transcript.Interrupt:
		if b.Ended == "" {
			m.asked = true
			m.emit(e, 0, userInterrupt, nil)
			break
		}
		m.end(e, 0, b.Ended)
		m.held, m.asked, m.decided = nil, false, ""
	}
	return m.out
}

// hear takes what a user has said, or the results of calls.
func (m *agentEvents) hear(e transcript.Entry, f transcript.Fragment) {
	switch {
	case f.Kind == transcript.TypeToolResult:
		n := 0
		for _, b := range f.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok {
				m.emit(e, n, agentToolResult, object{
					"tool_use_id": or(m.calls[r.CallID], r.CallID), "content": agentContent(r.Content), "is_error": r.IsError,
				})
				n++
			}
		}
	case f.Queued != "": // the message was there when it was queued
		m.emit(e, 0, sessionRunning, nil)
	default:
		m.emit(e, 0, userMessage, object{"content": agentContent(f.Content)})
	}
}

// speak takes a part of an answer.
func (m *agentEvents) speak(e transcript.Entry, f transcript.Fragment) {
	if m.answer.id == "" || f.Of != m.answer.id {
		m.ended()
		m.answer = agentAnswer{id: e.ID, stop: f.StopReason}
		if d := m.drafts[e.Idem]; d != nil {
			m.answer.draft = d.id
			delete(m.drafts, e.Idem)
		}
		m.decided = ""
	}
	a := &m.answer
	n := 0
	var texts []transcript.Block
	flush := func() {
		if len(texts) > 0 {
			m.emit(e, n, agentMessage, object{"content": agentContent(texts)})
			if a.draft != "" {
				last := &m.out[len(m.out)-1]
				last.id, last.data["id"] = a.draft, a.draft
				a.draft = ""
			}
			n, texts = n+1, nil
		}
	}
	for _, b := range f.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			if b.Text != "" {
				texts = append(texts, b)
			}
			continue
		case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
			flush()
			m.emit(e, n, agentThinking, nil)
			n++
		case transcript.ToolCallBlock:
			flush()
			id := m.emit(e, n, agentToolUse, object{"name": b.Name, "input": agentInput(b.Input)})
			m.calls[e.ID+"\n"+b.ID], m.calls[b.ID] = id, id
			n++
		}
	}
	flush()
	a.last, a.n, a.calls = e, n, a.calls || f.Kind == transcript.TypeToolUse
	if max(e.Part, 1) == m.size {
		m.ended()
	}
}

// ended ends the answer whose entries have come.
func (m *agentEvents) ended() {
	a := m.answer
	m.answer = agentAnswer{}
	if a.id == "" {
		return
	}
	why := ""
	switch {
	case a.stop == transcript.StopError, a.stop == transcript.StopAborted && !m.asked, a.stop == transcript.StopRefusal:
		why = string(a.stop)
	case a.stop == transcript.StopAborted:
		why = endStopped
	case a.calls:
		return
	}
	m.end(a.last, a.n, why)
	m.held, m.asked = nil, false // an answer leaves nothing decided, see speak
	if !a.calls {
		clear(m.drafts)
		clear(m.calls)
	}
}

// end says that the turn is over, and why if it has no answer.
func (m *agentEvents) end(e transcript.Entry, n int, why string) {
	reason := "end_turn"
	switch why {
	case "", endStopped:
	case string(transcript.StopRefusal):
		reason = why
	default:
		reason = "retries_exhausted"
		m.emit(e, n, sessionError, object{"error": object{
			"type": "unknown_error", "message": "the turn has ended without an answer: " + why, "retry_status": object{"type": "exhausted"},
		}})
		n++
	}
	m.emit(e, n, sessionIdle, object{"stop_reason": object{"type": reason}, "stop_details": nil})
}

// decide takes what is said about whether a call may be run.
func (m *agentEvents) decide(e transcript.Entry, d transcript.Decision) {
	call := or(m.calls[d.Call+"\n"+d.CallID], d.Call+"/0")
	at, n := slices.Index(m.held, call), 0
	if d.Verdict == transcript.Hold {
		if at < 0 {
			m.held = append(m.held, call)
		}
	} else {
		data := object{"tool_use_id": call, "result": "allow"}
		if d.Verdict == transcript.Reject {
			data["result"], data["deny_message"] = "deny", d.Reason
		}
		m.emit(e, n, userConfirmation, data)
		n++
		if at < 0 {
			return
		}
		m.held = slices.Delete(m.held, at, at+1)
		m.decided = e.ID
	}
	if len(m.held) == 0 {
		m.emit(e, n, sessionRunning, nil)
		return
	}
	m.emit(e, n, sessionIdle, object{
		"stop_reason": object{"type": "requires_action", "event_ids": slices.Clone(m.held)}, "stop_details": nil,
	})
}

// preview takes a part of a draft.
func (m *agentEvents) preview(e transcript.Entry, d transcript.Draft) {
	if d.Off {
		delete(m.drafts, d.Key)
		return
	}
	known, n := m.drafts[d.Key], 0
	if known == nil {
		known = &agentDraft{id: e.ID + "/0"}
		m.drafts[d.Key] = known
		m.emit(e, 1, previewStart, startOf(known.id))
		n = 2
	}
	known.text += d.Text
	m.emit(e, n, previewDelta, deltaOf(known.id, d.Text))
}

func startOf(id string) object {
	return object{"event": object{"id": id, "type": agentMessage}}
}

func deltaOf(id, text string) object {
	return object{"event_id": id, "delta": object{
		"type": "content_delta", "index": 0, "content": object{"type": "text", "text": text},
	}}
}

// isOpen reports whether an event is to come that a draft has announced.
func (m *agentEvents) isOpen(id string) bool {
	for _, d := range m.drafts {
		if d.id == id {
			return true
		}
	}
	return m.answer.draft != "" && m.answer.draft == id
}

// A since drops events up to one that a client has seen.
type since struct {
	id     string // of that; empty drops nothing
	entry  string
	passed bool
}

func newSince(id string) *since {
	entry, _, _ := place(id)
	return &since{id: id, entry: entry}
}

// drop returns those of the events of an entry that the client has not seen.
func (c *since) drop(m *agentEvents, e transcript.Entry, events []agentEvent) []agentEvent {
	if c.id == "" {
		return events
	}
	for i, ev := range events {
		if ev.id == c.id {
			c.id = ""
			return events[i+1:]
		}
	}
	if c.passed && !m.isOpen(c.id) { // there is no such event any more
		c.id = ""
		return events
	}
	c.passed = c.passed || e.ID == c.entry
	return nil
}

// inlined yields entries with the bytes of what is kept beside the transcript.
func inlined(ctx context.Context, s *session.Session, entries iter.Seq2[transcript.Entry, error]) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				var all []transcript.Entry
				if all, err = s.FilterExport(ctx, []transcript.Entry{e}); err == nil {
					e = all[0]
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// beginning returns an entry in front of another one, or of the end if that is empty,
// behind which events can be made: the last of an answer without calls that ends an
// append, or the header.
func beginning(ctx context.Context, s *session.Session, entry string) (string, error) {
	last, answer, calls := "", "", false // of the answer that is looked at
	var next transcript.Entry            // the one behind it; none is shown if it has no ID
	ends := func() bool {
		return answer != "" && !calls && (next.ID != "" && next.Part <= 1 || next.ID == "" && endsAppend(ctx, s, last))
	}
	var behind transcript.Entry // the one that was looked at before
	for seen := 0; seen < lookBack; {
		page, err := search.Page(ctx, s, entry, -64)
		if err != nil {
			return "", err
		}
		for _, e := range slices.Backward(page) {
			id := ""
			f, ok := e.Body.(transcript.Fragment)
			if ok && f.Role == transcript.RoleAssistant {
				id = or(f.Of, e.ID)
			}
			if id != answer {
				if ends() {
					return last, nil
				}
				last, answer, calls, next = e.ID, id, false, behind
			}
			calls = calls || ok && f.Kind == transcript.TypeToolUse
			behind = e
		}
		switch {
		case len(page) == 64:
			seen += len(page)
			entry = page[0].ID
		case ends():
			return last, nil
		default:
			return s.Ref().ID, nil
		}
	}
	return entry, nil
}

// endsAppend reports whether an entry is the last one of its append.
func endsAppend(ctx context.Context, s *session.Session, id string) bool {
	for e, err := range s.Entries(ctx, id) {
		return err == nil && e.Part <= 1
	}
	return true
}

// agentContent is what blocks are for clients.
func agentContent(blocks []transcript.Block) []any {
	all := []any{}
	for _, b := range blocks {
		switch b := b.(type) {
		case transcript.TextBlock:
			all = append(all, object{"type": "text", "text": b.Text})
		case transcript.ImageBlock:
			all = append(all, object{"type": "image", "source": agentSource(b.Source)})
		case transcript.DocumentBlock:
			doc := object{"type": "document", "source": agentSource(b.Source)}
			if b.Title != "" {
				doc["title"] = b.Title
			}
			if b.Context != "" {
				doc["context"] = b.Context
			}
			all = append(all, doc)
		case transcript.ContextBlock:
			all = append(all, object{"type": "text", "text": strings.TrimSpace(b.Abstract + " " + b.URI)})
		case transcript.RawBlock:
			all = append(all, b.JSON)
		}
	}
	return all
}

func agentSource(s transcript.Source) object {
	switch s.Type {
	case "url":
		return object{"type": s.Type, "url": s.URL}
	case "file":
		return object{"type": s.Type, "file_id": s.FileID}
	}
	return object{"type": s.Type, "media_type": s.MediaType, "data": s.Data}
}

// agentInput is the input of a call as an object, which clients demand.
func agentInput(input json.RawMessage) json.RawMessage {
	switch trimmed := bytes.TrimSpace(input); {
	case len(trimmed) == 0 || !json.Valid(trimmed):
		return json.RawMessage(`{}`)
	case trimmed[0] != '{':
		return json.RawMessage(`{"input":` + string(trimmed) + `}`)
	}
	return input
}
