// Package zyhive serves the routes of ZyHive: chat as server-sent events, and sessions
// by agent. The paths below /api/sessions are used by the program ZyHive; the paths below
// /api/agents are in its documents.
package zyhive

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// New returns the surface. Without Options.Respond the chat gets 501.
func New() serve.Surface {
	return serve.Surface{Fail: fail, Routes: []serve.Route{
		{Method: "POST", Path: "/api/agents/{agent}/chat", Summary: "Send a message and stream the answer.", Answers: true, In: chatBody{}, Media: mediaEvents, Do: chat},
		{Method: "GET", Path: "/api/agents/{agent}/chat/stream", Summary: "Continue the stream of an answer.", In: chatQuery{}, Media: mediaEvents, Do: about(chatStream)},
		{Method: "GET", Path: "/api/agents/{agent}/chat/status", Summary: "Report whether an answer is running.", In: chatQuery{}, Out: chatState{}, Do: about(chatStatus)},
		{Method: "DELETE", Path: "/api/agents/{agent}/chat", Summary: "Stop the running answer.", In: chatQuery{}, Out: map[string]string{}, Do: about(chatStop)},
		{Method: "GET", Path: "/api/agents/{agent}/sessions", Summary: "List sessions.", In: listQuery{}, Out: sessionList{}, Do: list},
		{Method: "GET", Path: "/api/agents/{agent}/sessions/{id}", Summary: "Read a whole conversation.", In: readQuery{}, Out: conversation{}, Media: mediaEither, Do: about(get)},
		{Method: "PATCH", Path: "/api/agents/{agent}/sessions/{id}", Summary: "Set the title of a session.", In: titleBody{}, Out: change{}, Do: about(setTitle)},
		{Method: "DELETE", Path: "/api/agents/{agent}/sessions/{id}", Audit: "delete", Summary: "Delete a session.", Out: change{}, Do: about(remove)},
		{Method: "GET", Path: "/api/sessions", Summary: "List sessions of any agent.", In: listQuery{}, Out: sessionList{}, Do: list},
		{Method: "GET", Path: "/api/sessions/{agent}/{id}", Summary: "Read a whole conversation.", In: readQuery{}, Out: conversation{}, Media: mediaEither, Do: about(get)},
		{Method: "PATCH", Path: "/api/sessions/{agent}/{id}", Summary: "Set the title of a session.", In: titleBody{}, Out: change{}, Do: about(setTitle)},
		{Method: "DELETE", Path: "/api/sessions/{agent}/{id}", Audit: "delete", Summary: "Delete a session.", Out: change{}, Do: about(remove)},
	}}
}

func fail(q *serve.Request, p *serve.Problem) {
	q.JSON(p.Status, map[string]string{"error": p.Error(), "code": p.Code})
}

const mediaEvents, mediaEither = "text/event-stream", "application/json, application/jsonl"

// The bodies, parameters and answers of the routes.
type (
	chatQuery struct {
		SessionID string `json:"sessionId"`
	}
	chatState struct {
		Status         string `json:"status"`
		HasWorker      bool   `json:"hasWorker"`
		BufferedEvents int    `json:"bufferedEvents"`
	}
	listQuery struct {
		Limit   int    `json:"limit"`
		AgentID string `json:"agentId"` // if not in the path
	}
	sessionList struct {
		Sessions []sessionInfo `json:"sessions"`
		Total    int           `json:"total"`
	}
	readQuery struct {
		Raw string `json:"raw"` // if set, the transcript's lines
	}
	conversation struct {
		Session  sessionInfo       `json:"session"`
		Messages []message         `json:"messages"`
		Agent    map[string]string `json:"agent"`
	}
	titleBody struct {
		Title *string `json:"title"`
	}
	change struct {
		OK      bool         `json:"ok"`
		Session *sessionInfo `json:"session,omitempty"`
	}
)

// chatBody is a message of a user. The server ignores other members, such as a history,
// because it keeps the history itself.
type chatBody struct {
	Message   string   `json:"message,omitempty"`
	SessionID string   `json:"sessionId,omitempty"`
	Context   string   `json:"context,omitempty"` // for the system prompt of the turn; at most 16 KiB
	Images    []string `json:"images,omitempty"`  // data URLs
}

// maxContext is the largest size of a context in bytes.
const maxContext = 16 << 10

// content returns the blocks of the message, or refuses the body.
func (b chatBody) content() (content []transcript.Block, err error) {
	if len(b.Context) > maxContext {
		return nil, serve.Invalid("the context is larger than 16 KiB")
	}
	if b.Message != "" {
		content = append(content, transcript.TextBlock{Text: b.Message})
	}
	for _, image := range b.Images {
		media, data, ok := strings.Cut(strings.TrimPrefix(image, "data:"), ";base64,")
		if _, err := base64.StdEncoding.DecodeString(data); !ok || err != nil || !strings.HasPrefix(image, "data:image/") {
			return nil, serve.Invalid("an image is not a base64 data URL of an image")
		}
		content = append(content, transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: media, Data: data}})
	}
	if err := said.Check(transcript.Message{Content: content}); err != nil {
		return nil, serve.Invalid(err.Error())
	}
	return content, nil
}

// chat queues a text for the responder and streams its turn.
func chat(q *serve.Request) error {
	var body chatBody
	if err := q.Decode(&body); err != nil {
		return err
	}
	content, err := body.content()
	if err != nil {
		return err
	}
	var s *session.Session
	if agent := q.PathValue("agent"); body.SessionID == "" {
		s, err = q.Create(agent, "")
	} else {
		s, err = q.Session(agent, body.SessionID)
	}
	if err != nil {
		return err
	}
	text, err := q.Say(s, content, body.Context)
	if err != nil {
		return err
	}
	t, err := q.Turn(s, text)
	if err != nil {
		return err
	}
	return show(q, s, t)
}

// about calls f with the session in the path or the query of a request.
func about(f func(*serve.Request, *session.Session) error) func(*serve.Request) error {
	return func(q *serve.Request) error {
		s, err := q.Session(q.PathValue("agent"), cmp.Or(q.PathValue("id"), q.URL.Query().Get("sessionId")))
		if err != nil {
			return err
		}
		return f(q, s)
	}
}

// chatStream continues the stream of a turn, or sends an idle event if no turn runs.
func chatStream(q *serve.Request, s *session.Session) error {
	t, err := q.Turn(s, "")
	if err != nil {
		return err
	}
	if t != nil {
		return show(q, s, t)
	}
	q.Stream(func(_ context.Context, send func(id, name string, data any) error) error {
		return send("", "", event{Type: "idle"})
	})
	return nil
}

func chatStatus(q *serve.Request, s *session.Session) error {
	running, here, err := q.Status(s)
	if err != nil {
		return err
	}
	status := "idle"
	if running {
		status = "generating"
	}
	q.JSON(http.StatusOK, chatState{Status: status, HasWorker: here})
	return nil
}

func chatStop(q *serve.Request, s *session.Session) error {
	if err := q.Stop(s); err != nil {
		return err
	}
	q.JSON(http.StatusOK, map[string]string{"status": "stopping"})
	return nil
}

// An event is one event of a stream.
type event struct {
	Type          string  `json:"type"`
	Text          *string `json:"text,omitempty"`
	ToolCall      *call   `json:"tool_call,omitempty"`
	Error         string  `json:"error,omitempty"`
	SessionID     string  `json:"sessionId,omitempty"`
	TokenEstimate *int    `json:"tokenEstimate,omitempty"`
}

type call struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result string          `json:"result,omitempty"`
}

// show streams a turn.
func show(q *serve.Request, s *session.Session, t *serve.Turn) error {
	q.Stream(func(ctx context.Context, send func(id, name string, data any) error) error {
		for f := range t.Frames(ctx) {
			if e := eventOf(context.WithoutCancel(ctx), s, f); e.Type != "" && send(f.ID, "", e) != nil {
				return nil
			}
		}
		return nil
	})
	return nil
}

// eventOf returns the event of a frame. Its Type is empty if the frame has no event.
func eventOf(ctx context.Context, s *session.Session, f serve.Frame) (e event) {
	switch f.Kind {
	case "text":
		e.Type, e.Text = "text_delta", &f.Text
	case "thinking":
		e.Type, e.Text = "thinking_delta", &f.Text
	case "call":
		c, _ := f.Block.(transcript.ToolCallBlock)
		e.Type, e.ToolCall = "tool_call", &call{ID: c.ID, Name: c.Name, Input: c.Input}
	case "result":
		text := said.Result(f.Block)
		e.Type, e.Text = "tool_result", &text
	case "reset":
		e.Type = "reset"
	case "failed":
		e.Type, e.Error = "error", f.Text
	case "end":
		var info session.Info
		if f.ID != "" { // the stream did not fail
			info, _ = s.Info(ctx) // the next call returns the error
		}
		e.Type, e.SessionID, e.TokenEstimate = "done", s.Ref().ID, &info.Tokens
	}
	return e
}

// sessionInfo is a session in a list.
type sessionInfo struct {
	ID            string `json:"id"`
	AgentID       string `json:"agentId"`
	FilePath      string `json:"filePath"`
	Title         string `json:"title,omitempty"`
	MessageCount  int    `json:"messageCount"`
	CreatedAt     int64  `json:"createdAt"`
	LastAt        int64  `json:"lastAt"`
	TokenEstimate int    `json:"tokenEstimate"`
}

func infoOf(i session.Info) sessionInfo {
	return sessionInfo{
		ID: i.ID, AgentID: i.Agent, FilePath: i.ID + ".jsonl", Title: i.Title, MessageCount: i.Messages,
		CreatedAt: i.CreatedAt.UnixMilli(), LastAt: i.UpdatedAt.UnixMilli(), TokenEstimate: i.Tokens,
	}
}

func list(q *serve.Request) error {
	opts := &session.ListOptions{Key: session.Key{Agent: cmp.Or(q.PathValue("agent"), q.URL.Query().Get("agentId"))}}
	infos, err := q.Sessions(opts)
	if err != nil {
		return err
	}
	limit := len(infos)
	if text := q.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return serve.Invalid("the parameter limit is not a number")
		}
		limit = min(limit, cmp.Or(n, limit))
	}
	out := []sessionInfo{}
	for _, i := range infos[:limit] {
		out = append(out, infoOf(i))
	}
	q.JSON(http.StatusOK, sessionList{out, len(infos)})
	return nil
}

// A message is a message of a conversation, or a compaction.
type message struct {
	Role      string `json:"role"`
	Text      string `json:"text"`
	Timestamp int64  `json:"timestamp"`
	IsCompact bool   `json:"isCompact,omitempty"`
	ToolCalls []call `json:"toolCalls,omitempty"`
}

func get(q *serve.Request, s *session.Session) error {
	if q.URL.Query().Get("raw") != "" {
		return rawLines(q, s)
	}
	messages, err := messagesOf(q.Context(), s)
	if err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	q.JSON(http.StatusOK, conversation{infoOf(info), messages, map[string]string{"id": info.Agent, "name": info.Agent}})
	return nil
}

// messagesOf returns a whole conversation, with the compacted messages.
func messagesOf(ctx context.Context, s *session.Session) ([]message, error) {
	messages := []message{}
	calls := map[string]*call{} // the last call with each ID
	var answer string           // the first entry of the last message
	err := said.Each(ctx, s, func(e transcript.Entry) {
		switch b := e.Body.(type) {
		case transcript.Compaction:
			messages = append(messages, message{Role: "compaction", Text: b.Summary, Timestamp: e.Time.UnixMilli(), IsCompact: true})
			answer = ""
		case transcript.MessageLine:
			if b.Kind == transcript.TypeToolResult {
				for _, block := range b.Content {
					if r, ok := block.(transcript.ToolResultBlock); ok && calls[r.CallID] != nil {
						calls[r.CallID].Result = said.Result(r)
					}
				}
				return
			}
			if b.Of == "" || b.Of != answer {
				messages = append(messages, message{Role: string(b.Role), Timestamp: e.Time.UnixMilli()})
				answer = e.ID
			}
			m := &messages[len(messages)-1]
			for _, block := range b.Content {
				m.Text += said.Text(block)
				if c, ok := block.(transcript.ToolCallBlock); ok {
					m.ToolCalls = append(m.ToolCalls, call{ID: c.ID, Name: c.Name, Input: c.Input})
				}
			}
			for i := range m.ToolCalls {
				calls[m.ToolCalls[i].ID] = &m.ToolCalls[i]
			}
		}
	})
	return messages, err
}

func setTitle(q *serve.Request, s *session.Session) error {
	var body titleBody
	if err := q.Decode(&body); err != nil {
		return err
	}
	if body.Title == nil {
		return serve.Invalid("the title is missing")
	}
	if err := s.SetMeta(q.Context(), transcript.Meta{Title: body.Title}); err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	q.JSON(http.StatusOK, change{true, new(infoOf(info))})
	return nil
}

func remove(q *serve.Request, s *session.Session) error {
	if err := retain.Delete(q.Context(), q.Store, s.Ref()); err != nil {
		return err
	}
	q.JSON(http.StatusOK, change{OK: true})
	return nil
}

// rawLines answers with the unchanged lines of a transcript.
func rawLines(q *serve.Request, s *session.Session) error {
	q.Writer.Header().Set("Content-Type", "application/jsonl")
	for e, err := range s.Entries(q.Context(), "") {
		if err != nil {
			return err
		}
		if _, err := q.Writer.Write(append(e.Line(), '\n')); err != nil {
			return nil
		}
	}
	return nil
}
