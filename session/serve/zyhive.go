package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The routes of ZyHive. Those of sessions below /api/sessions are where its program
// has them; those below an agent are where its documents have them.
var zyHiveRoutes = []Route{
	{Surface: ZyHive, Method: "POST", Path: "/api/agents/{agent}/chat", Summary: "Say something and stream the answer.", do: (*request).chat},
	{Surface: ZyHive, Method: "GET", Path: "/api/agents/{agent}/chat/stream", Summary: "Go on with the stream of an answer.", do: (*request).chatStream},
	{Surface: ZyHive, Method: "GET", Path: "/api/agents/{agent}/chat/status", Summary: "Say whether an answer is being made.", do: (*request).chatStatus},
	{Surface: ZyHive, Method: "DELETE", Path: "/api/agents/{agent}/chat", Summary: "Stop the answer that is being made.", do: (*request).chatStop},
	{Surface: ZyHive, Method: "GET", Path: "/api/agents/{agent}/sessions", Summary: "List sessions.", do: (*request).zyList},
	{Surface: ZyHive, Method: "GET", Path: "/api/agents/{agent}/sessions/{id}", Summary: "Read a whole conversation.", do: (*request).zyGet},
	{Surface: ZyHive, Method: "PATCH", Path: "/api/agents/{agent}/sessions/{id}", Summary: "Set the title of a session.", do: (*request).zyTitle},
	{Surface: ZyHive, Method: "DELETE", Path: "/api/agents/{agent}/sessions/{id}", Summary: "Delete a session.", do: (*request).zyDelete},
	{Surface: ZyHive, Method: "GET", Path: "/api/sessions", Summary: "List sessions of any agent.", do: (*request).zyList},
	{Surface: ZyHive, Method: "GET", Path: "/api/sessions/{agent}/{id}", Summary: "Read a whole conversation.", do: (*request).zyGet},
	{Surface: ZyHive, Method: "PATCH", Path: "/api/sessions/{agent}/{id}", Summary: "Set the title of a session.", do: (*request).zyTitle},
	{Surface: ZyHive, Method: "DELETE", Path: "/api/sessions/{agent}/{id}", Summary: "Delete a session.", do: (*request).zyDelete},
}

// chatBody is the text of a user. Other members, such as a history, are ignored: the
// history is the server's.
type chatBody struct {
	Message   string   `json:"message"`
	SessionID string   `json:"sessionId"`
	Context   string   `json:"context"`
	Images    []string `json:"images"` // data URLs
}

// content returns the blocks of what was said.
func (b chatBody) content() (content []transcript.Block, err error) {
	if b.Context != "" {
		content = append(content, transcript.TextBlock{Text: b.Context})
	}
	if b.Message != "" {
		content = append(content, transcript.TextBlock{Text: b.Message})
	}
	for _, image := range b.Images {
		media, data, ok := strings.Cut(strings.TrimPrefix(image, "data:"), ";base64,")
		if _, err := base64.StdEncoding.DecodeString(data); !ok || err != nil || !strings.HasPrefix(image, "data:image/") {
			return nil, invalid("an image is not a data URL of an image in base64")
		}
		content = append(content, transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: media, Data: data}})
	}
	if len(content) == 0 {
		return nil, invalid("the message is empty")
	}
	return content, nil
}

// chat queues a text, lets it be answered, and streams its turn.
func (q *request) chat() error {
	if err := q.sv.takes(); err != nil {
		return err
	}
	var body chatBody
	if err := q.body(&body); err != nil {
		return err
	}
	content, err := body.content()
	if err != nil {
		return err
	}
	s, err := q.chatSession(body.SessionID)
	if err != nil {
		return err
	}
	entry, err := q.say(s, content)
	if err != nil {
		return err
	}
	sh := show{s: s, turn: entry, from: entry, seen: lastEventID(q.Request)}
	if sh.seen == "" {
		return q.zyStream(s, sh)
	}
	err = find(q.Context(), s, newTail(entry), entry, sh.seen)
	if errors.Is(err, session.ErrNoEntry) {
		sh.seen = ""
		return q.zyStream(s, sh, zyEvent{Type: "reset"})
	}
	if err != nil {
		return err
	}
	return q.zyStream(s, sh)
}

// chatSession returns the session that a text is said in, or a new one. One that is
// made for a request with an idempotency key is found again by it.
func (q *request) chatSession(id string) (*session.Session, error) {
	agent, err := q.agent(q.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	if id != "" {
		return q.store.Get(q.Context(), session.Ref{Agent: agent, ID: id})
	}
	id = q.newID(agent)
	s, err := q.create(agent, id)
	if errors.Is(err, fs.ErrExist) {
		return q.store.Get(q.Context(), session.Ref{Agent: agent, ID: id})
	}
	return s, err
}

// newID returns the ID of a new session: the same one for requests with the same
// idempotency key.
func (q *request) newID(agent string) string {
	if key := q.Header.Get("Idempotency-Key"); key != "" {
		sum := sha256.Sum256([]byte(q.who.Owner + "\x00" + agent + "\x00" + key))
		return "ses-" + hex.EncodeToString(sum[:16])
	}
	return uuid.Must(uuid.NewV7()).String()
}

// create makes a session of a conversation over HTTP.
func (q *request) create(agent, id string) (*session.Session, error) {
	id = cmp.Or(id, uuid.Must(uuid.NewV7()).String())
	key := session.Key{Agent: agent, Channel: "http", Peer: id}
	s, err := q.store.Create(q.Context(), key, &session.CreateOptions{ID: id, Owner: q.who.Owner})
	if _, ok := errors.AsType[*driver.NameError](err); ok {
		return nil, invalid("the ID or the agent is not one that a session can have")
	}
	return s, err
}

// say queues a text and lets it be answered. The text is durable when it returns; a
// request that is made again with its idempotency key says nothing twice.
func (q *request) say(s *session.Session, content []transcript.Block) (entry string, err error) {
	pending, err := s.Pending(q.Context())
	if err != nil {
		return "", err
	}
	if len(pending.Queued) >= q.sv.opts.Queue {
		return "", errFull
	}
	cond := session.Cond{}
	if key := q.Header.Get("Idempotency-Key"); key != "" {
		cond.Idem = "http:" + key
	}
	done, err := s.AppendIf(context.WithoutCancel(q.Context()), cond, transcript.Queued{Content: content})
	if err != nil {
		return "", err
	}
	q.sv.answer(s)
	return done.IDs[0], nil
}

// chatStream goes on with a stream.
func (q *request) chatStream() error {
	s, err := q.session(q.Context(), q.PathValue("agent"), q.URL.Query().Get("sessionId"))
	if err != nil {
		return err
	}
	if err := q.sv.wake(q.Context(), s); err != nil {
		return err
	}
	seen := lastEventID(q.Request)
	if seen != "" {
		from, err := resume(q.Context(), s, seen)
		if err == nil {
			return q.zyStream(s, show{s: s, from: from, seen: seen})
		}
		if !errors.Is(err, session.ErrNoEntry) {
			return err
		}
	}
	begin, err := running(q.Context(), s)
	if err != nil {
		return err
	}
	if begin != "" {
		return q.zyStream(s, show{s: s, from: begin}, zyEvent{Type: "reset"})
	}
	return newStream(q.w).send(event{data: zyEvent{Type: "idle"}})
}

// running returns the entry behind which an answer begins that is being made, or that
// is waited for; empty if there is none.
func running(ctx context.Context, s *session.Session) (string, error) {
	open, err := isOpen(ctx, s)
	if err != nil {
		return "", err
	}
	if open {
		text, err := lastDrained(ctx, s)
		return text.ID, err
	}
	pending, err := s.Pending(ctx)
	if err != nil || len(pending.Queued) == 0 {
		return "", err
	}
	return pending.Queued[0].Entry, nil
}

func (q *request) chatStatus() error {
	s, err := q.session(q.Context(), q.PathValue("agent"), q.URL.Query().Get("sessionId"))
	if err != nil {
		return err
	}
	begin, err := running(q.Context(), s)
	if err != nil {
		return err
	}
	status := "idle"
	if begin != "" {
		status = "generating"
	}
	q.json(http.StatusOK, map[string]any{"status": status, "hasWorker": q.sv.isAnswering(s), "bufferedEvents": 0})
	return nil
}

// chatStop asks whoever answers to stop.
func (q *request) chatStop() error {
	s, err := q.session(q.Context(), q.PathValue("agent"), q.URL.Query().Get("sessionId"))
	if err != nil {
		return err
	}
	if err := q.stop(s); err != nil {
		return err
	}
	q.json(http.StatusOK, map[string]string{"status": "stopping"})
	return nil
}

// stop asks whoever answers in a session to stop, on any server: the one that has the
// turn, even if a rewind has taken back what it answers.
func (q *request) stop(s *session.Session) error {
	begin, err := running(q.Context(), s)
	if err != nil {
		return err
	}
	if begin == "" {
		t, err := turn.TryBegin(q.Context(), s)
		if err == nil {
			return t.End()
		}
		if !errors.Is(err, session.ErrBusy) {
			return err
		}
	}
	_, err = s.Append(q.Context(), transcript.Interrupt{By: q.who.Owner})
	return err
}

// zyEvent is an event of a chat.
type zyEvent struct {
	Type          string  `json:"type"`
	Text          *string `json:"text,omitempty"`
	ToolCall      *zyCall `json:"tool_call,omitempty"`
	Error         string  `json:"error,omitempty"`
	SessionID     string  `json:"sessionId,omitempty"`
	TokenEstimate *int    `json:"tokenEstimate,omitempty"`
}

type zyCall struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result string          `json:"result,omitempty"`
}

// zyStream streams a turn. The first events, if any, have no ID.
func (q *request) zyStream(s *session.Session, sh show, first ...zyEvent) error {
	sh.event = func(f frame) (event, bool) {
		e := zyEvent{}
		switch f.kind {
		case frameText:
			e.Type, e.Text = "text_delta", &f.text
		case frameThinking:
			e.Type, e.Text = "thinking_delta", &f.text
		case frameCall:
			c, _ := f.block.(transcript.ToolCallBlock)
			e.Type, e.ToolCall = "tool_call", &zyCall{ID: c.ID, Name: c.Name, Input: c.Input}
		case frameResult:
			text := resultText(f.block)
			e.Type, e.Text = "tool_result", &text
		case frameReset:
			e.Type = "reset"
		case frameFailed:
			e.Type, e.Error = "error", f.text
		case frameEnd:
			info, _ := s.Info(q.Context()) // the next call says why if it cannot
			e.Type, e.SessionID, e.TokenEstimate = "done", s.Ref().ID, &info.Tokens
		default:
			return event{}, false
		}
		return event{data: e}, true
	}
	st := newStream(q.w)
	for _, e := range first {
		if err := st.send(event{data: e}); err != nil {
			return nil
		}
	}
	err := q.sv.follow(q.Context(), st, sh)
	if err != nil && st.err == nil && q.Context().Err() == nil {
		// Finish with a terminal event. If the server is being stopped, send none: the
		// client reconnects and resumes.
		if q.sv.life.Err() == nil {
			_ = st.send(event{data: zyEvent{Type: "error", Error: problemOf(err).Code}})
			tokens := 0
			_ = st.send(event{data: zyEvent{Type: "done", SessionID: s.Ref().ID, TokenEstimate: &tokens}})
		}
		if p := problemOf(err); p == errInternal {
			q.sv.log("a stream failed", s, err)
		}
	}
	return nil
}

// resultText is the text of the result of a call.
func resultText(b transcript.Block) string {
	r, ok := b.(transcript.ToolResultBlock)
	if !ok {
		return textOf(b)
	}
	return transcript.Message{Content: r.Content}.Text()
}

// zySession is a session in a list.
type zySession struct {
	ID            string `json:"id"`
	AgentID       string `json:"agentId"`
	FilePath      string `json:"filePath"`
	Title         string `json:"title,omitempty"`
	MessageCount  int    `json:"messageCount"`
	CreatedAt     int64  `json:"createdAt"`
	LastAt        int64  `json:"lastAt"`
	TokenEstimate int    `json:"tokenEstimate"`
}

func zySessionOf(i session.Info) zySession {
	return zySession{
		ID: i.ID, AgentID: i.Agent, FilePath: i.ID + ".jsonl", Title: i.Title, MessageCount: i.Messages,
		CreatedAt: i.CreatedAt.UnixMilli(), LastAt: i.UpdatedAt.UnixMilli(), TokenEstimate: i.Tokens,
	}
}

func (q *request) zyList() error {
	opts := &session.ListOptions{Key: session.Key{Agent: cmp.Or(q.PathValue("agent"), q.URL.Query().Get("agentId"))}}
	infos, err := q.list(opts)
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 0)
	if err != nil {
		return err
	}
	out := []zySession{}
	for _, i := range infos {
		if limit == 0 || len(out) < limit {
			out = append(out, zySessionOf(i))
		}
	}
	q.json(http.StatusOK, map[string]any{"sessions": out, "total": len(infos)})
	return nil
}

// zyMessage is a message as people read it.
type zyMessage struct {
	Role      string   `json:"role"`
	Text      string   `json:"text"`
	Timestamp int64    `json:"timestamp"`
	IsCompact bool     `json:"isCompact,omitempty"`
	ToolCalls []zyCall `json:"toolCalls,omitempty"`
}

func (q *request) zyGet() error {
	s, err := q.session(q.Context(), q.PathValue("agent"), q.PathValue("id"))
	if err != nil {
		return err
	}
	if q.URL.Query().Get("raw") != "" {
		return q.rawLines(s)
	}
	messages, err := zyMessages(q.Context(), s)
	if err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	q.json(http.StatusOK, map[string]any{
		"session": zySessionOf(info), "messages": messages, "agent": map[string]string{"id": info.Agent, "name": info.Agent},
	})
	return nil
}

// zyMessages returns a whole conversation, what was compacted included.
func zyMessages(ctx context.Context, s *session.Session) ([]zyMessage, error) {
	messages := []zyMessage{}
	calls := map[string]*zyCall{} // by ID, the last one
	var answer string             // the entry that the last message began with
	err := eachShown(ctx, s, func(e transcript.Entry) {
		switch b := e.Body.(type) {
		case transcript.Compaction:
			messages = append(messages, zyMessage{Role: "compaction", Text: b.Summary, Timestamp: e.Time.UnixMilli(), IsCompact: true})
			answer = ""
		case transcript.Fragment:
			if b.Kind == transcript.TypeToolResult {
				for _, block := range b.Content {
					if r, ok := block.(transcript.ToolResultBlock); ok && calls[r.CallID] != nil {
						calls[r.CallID].Result = resultText(r)
					}
				}
				return
			}
			if b.Of == "" || b.Of != answer {
				messages = append(messages, zyMessage{Role: string(b.Role), Timestamp: e.Time.UnixMilli()})
				answer = e.ID
			}
			m := &messages[len(messages)-1]
			for _, block := range b.Content {
				m.Text += textOf(block)
				if c, ok := block.(transcript.ToolCallBlock); ok {
					m.ToolCalls = append(m.ToolCalls, zyCall{ID: c.ID, Name: c.Name, Input: c.Input})
				}
			}
			for i := range m.ToolCalls {
				calls[m.ToolCalls[i].ID] = &m.ToolCalls[i]
			}
		}
	})
	return messages, err
}

func (q *request) zyTitle() error {
	s, err := q.session(q.Context(), q.PathValue("agent"), q.PathValue("id"))
	if err != nil {
		return err
	}
	var body struct {
		Title *string `json:"title"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	if body.Title == nil {
		return invalid("there is no title")
	}
	if err := s.SetMeta(q.Context(), transcript.Meta{Title: body.Title}); err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	q.json(http.StatusOK, map[string]any{"ok": true, "session": zySessionOf(info)})
	return nil
}

func (q *request) zyDelete() error {
	s, err := q.session(q.Context(), q.PathValue("agent"), q.PathValue("id"))
	if err != nil {
		return err
	}
	if err := q.store.Delete(q.Context(), s.Ref()); err != nil {
		return err
	}
	q.json(http.StatusOK, map[string]any{"ok": true})
	return nil
}

// rawLines answers with the lines of a transcript as they are.
func (q *request) rawLines(s *session.Session) error {
	q.w.Header().Set("Content-Type", "application/jsonl")
	for e, err := range s.Entries(q.Context(), "") {
		if err != nil {
			return err
		}
		if _, err := q.w.Write(append(e.Line(), '\n')); err != nil {
			return nil
		}
	}
	return nil
}
