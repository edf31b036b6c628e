package serve

import (
	"errors"
	"net/http"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// The routes of OpenViking. Sessions are those of Options.Agent.
var openVikingRoutes = []Route{
	{Surface: OpenViking, Method: "POST", Path: "/api/v1/sessions", Summary: "Create a session.", do: (*request).vikingCreate},
	{Surface: OpenViking, Method: "GET", Path: "/api/v1/sessions", Summary: "List sessions.", do: (*request).vikingList},
	{Surface: OpenViking, Method: "GET", Path: "/api/v1/sessions/{id}", Summary: "Describe a session.", do: (*request).vikingGet},
	{Surface: OpenViking, Method: "DELETE", Path: "/api/v1/sessions/{id}", Summary: "Delete a session.", do: (*request).vikingDelete},
	{Surface: OpenViking, Method: "POST", Path: "/api/v1/sessions/{id}/messages", Summary: "Add a message.", do: (*request).vikingAdd},
	{Surface: OpenViking, Method: "POST", Path: "/api/v1/sessions/{id}/used", Summary: "Record what helped.", do: (*request).vikingUsed},
	{Surface: OpenViking, Method: "POST", Path: "/api/v1/sessions/{id}/commit", Summary: "Archive the messages.", do: (*request).vikingCommit},
	{Surface: OpenViking, Method: "GET", Path: "/api/v1/sessions/{id}/archives/{archive}", Summary: "Read an archive.", do: (*request).vikingArchive},
	{Surface: OpenViking, Method: "POST", Path: "/api/v1/search/search", Summary: "Search what was said.", do: (*request).vikingSearch},
}

// envelope answers as OpenViking does.
func (q *request) envelope(status int, result any, p *Problem) {
	took := time.Since(q.began).Seconds()
	if p != nil {
		type failure struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		}
		message := p.Title
		if p.Detail != "" {
			message += ": " + p.Detail
		}
		q.json(status, struct {
			Status string  `json:"status"`
			Error  failure `json:"error"`
			Time   float64 `json:"time"`
		}{"error", failure{p.Code, message}, took})
		return
	}
	q.json(status, struct {
		Status string  `json:"status"`
		Result any     `json:"result"`
		Time   float64 `json:"time"`
	}{"ok", result, took})
}

// user is the name of the owner of a session.
func user(owner string) string { return or(owner, "default") }

type vikingSession struct {
	ID           string `json:"session_id"`
	User         string `json:"user,omitempty"`
	MessageCount *int   `json:"message_count,omitempty"`
}

// viking returns a session of the surface.
func (q *request) viking() (*session.Session, error) {
	return q.session(q.Context(), q.sv.opts.Agent, q.PathValue("id"))
}

func (q *request) vikingCreate() error {
	agent, err := q.agent(q.sv.opts.Agent)
	if err != nil {
		return err
	}
	var body struct {
		ID string `json:"session_id"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	s, err := q.create(agent, body.ID)
	if err != nil {
		return err
	}
	q.envelope(http.StatusOK, vikingSession{ID: s.Ref().ID, User: user(q.who.Owner)}, nil)
	return nil
}

func (q *request) vikingList() error {
	infos, err := q.list(&session.ListOptions{Key: session.Key{Agent: q.sv.opts.Agent}})
	if err != nil {
		return err
	}
	out := make([]vikingSession, 0, len(infos))
	for _, i := range infos {
		out = append(out, vikingSession{ID: i.ID, User: user(i.Owner)})
	}
	q.envelope(http.StatusOK, out, nil)
	return nil
}

func (q *request) vikingGet() error {
	s, err := q.viking()
	if err != nil {
		return err
	}
	n, err := q.sv.counts.of(q.Context(), s)
	if err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	q.envelope(http.StatusOK, vikingSession{s.Ref().ID, user(info.Owner), &n}, nil)
	return nil
}

func (q *request) vikingDelete() error {
	s, err := q.viking()
	if err != nil {
		return err
	}
	if err := q.store.Delete(q.Context(), s.Ref()); err != nil {
		return err
	}
	q.envelope(http.StatusOK, map[string]string{"session_id": s.Ref().ID}, nil)
	return nil
}

// vikingPart is a part of a message.
type vikingPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	URI         string `json:"uri"`
	ContextType string `json:"context_type"`
	Abstract    string `json:"abstract"`
}

// vikingMessage returns the message of a role with a text, or with parts, which count
// if there are both.
func vikingMessage(role, content string, parts []vikingPart) (m transcript.Message, err error) {
	m.Role = transcript.Role(role)
	if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant {
		return m, invalid("the role is neither user nor assistant")
	}
	if len(parts) == 0 { // the line is that of the library
		text := transcript.UserText(content)
		text.Role = m.Role
		return text, nil
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			m.Content = append(m.Content, transcript.TextBlock{Text: p.Text})
		case "context":
			m.Content = append(m.Content, transcript.ContextBlock{URI: p.URI, Kind: p.ContextType, Abstract: p.Abstract})
		default:
			return m, invalid("a part is neither text nor context: record calls of tools with the library")
		}
	}
	return m, nil
}

func (q *request) vikingAdd() error {
	s, err := q.viking()
	if err != nil {
		return err
	}
	var body struct {
		Role    string       `json:"role"`
		Content string       `json:"content"`
		Parts   []vikingPart `json:"parts"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	m, err := vikingMessage(body.Role, body.Content, body.Parts)
	if err != nil {
		return err
	}
	idem := q.Header.Get("Idempotency-Key")
	if idem != "" {
		idem = "http:" + idem
	}
	n, err := q.sv.counts.appendMessage(q.Context(), s, idem, m)
	if err != nil {
		return err
	}
	q.envelope(http.StatusOK, vikingSession{ID: s.Ref().ID, MessageCount: &n}, nil)
	return nil
}

func (q *request) vikingUsed() error {
	s, err := q.viking()
	if err != nil {
		return err
	}
	var body struct {
		Contexts []string             `json:"contexts"`
		Skill    *transcript.SkillUse `json:"skill"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	var uses []memory.Use
	for _, uri := range body.Contexts {
		uses = append(uses, memory.Use{URI: uri})
	}
	if k := body.Skill; k != nil {
		uses = append(uses, memory.Use{Type: "skill", URI: k.URI, Input: k.Input, Output: k.Output, Success: k.Success})
	}
	if err := memory.RecordUse(q.Context(), s, uses...); err != nil {
		return err
	}
	stats, err := memory.ReadStats(q.Context(), s)
	if err != nil {
		return err
	}
	q.envelope(http.StatusOK, map[string]any{"session_id": s.Ref().ID, "contexts_used": stats.Contexts, "skills_used": stats.Skills}, nil)
	return nil
}

func (q *request) vikingCommit() error {
	s, err := q.viking()
	if err != nil {
		return err
	}
	if err := q.body(&struct{}{}); err != nil {
		return err
	}
	done, err := memory.Commit(q.Context(), s, nil)
	if err != nil {
		return err
	}
	learned := q.learn(s)
	stats, err := memory.ReadStats(q.Context(), s)
	if err != nil {
		return err
	}
	q.envelope(http.StatusOK, map[string]any{
		"session_id": s.Ref().ID, "status": "committed", "archived": done.Archived, "memories_extracted": learned, "stats": stats,
	}, nil)
	return nil
}

// learn learns from the archives of a session that nothing was learned from, and
// returns how many memories that has added or changed. Archives that fail stay for
// the next commit.
func (q *request) learn(s *session.Session) (memories int) {
	m := q.sv.opts.Memory
	if m == nil {
		return 0
	}
	info, err := s.Info(q.Context())
	if err == nil && info.Owner == "" {
		return 0
	}
	pending, err := m.Pending(q.Context(), s)
	for _, name := range pending {
		result, failed := m.Extract(q.Context(), s, name)
		err = errors.Join(err, failed)
		for _, n := range result.Counts {
			memories += n.Added + n.Merged
		}
	}
	if err != nil {
		q.sv.log("learning from archives failed", s, err)
	}
	return memories
}

func (q *request) vikingArchive() error {
	s, err := q.viking()
	if err != nil {
		return err
	}
	name := q.PathValue("archive")
	archives, err := memory.Chapters(q.Context(), s)
	if err != nil {
		return err
	}
	for _, a := range archives {
		if a.Name != name {
			continue
		}
		h, err := memory.ReadChapter(q.Context(), s, name)
		if err != nil {
			return err
		}
		q.envelope(http.StatusOK, map[string]any{"archive_id": name, "abstract": a.Abstract, "overview": a.Overview, "messages": vikingMessages(h.Messages)}, nil)
		return nil
	}
	return errNotFound
}

func vikingMessages(messages []transcript.Message) []map[string]any {
	out := []map[string]any{}
	for _, m := range messages {
		parts := []any{}
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				parts = append(parts, map[string]any{"type": "text", "text": b.Text})
			case transcript.ContextBlock:
				parts = append(parts, map[string]any{"type": "context", "uri": b.URI, "context_type": b.Kind, "abstract": b.Abstract})
			case transcript.ToolCallBlock:
				parts = append(parts, map[string]any{"type": "tool", "tool_id": b.ID, "tool_name": b.Name, "tool_input": b.Input})
			case transcript.ToolResultBlock:
				parts = append(parts, map[string]any{"type": "tool", "tool_id": b.CallID, "tool_output": resultText(b)})
			}
		}
		out = append(out, map[string]any{"role": m.Role, "parts": parts})
	}
	return out
}

// vikingFound is something that a search has found.
type vikingFound struct {
	URI      string  `json:"uri"`
	Type     string  `json:"context_type"`
	Abstract string  `json:"abstract"`
	Score    float64 `json:"score"`
}

// vikingSearch searches memories and one session, or what was said in all sessions
// that the principal may see.
func (q *request) vikingSearch() error {
	agent, err := q.agent(q.sv.opts.Agent)
	if err != nil {
		return err
	}
	var body struct {
		Query   string `json:"query"`
		Session string `json:"session_id"`
		Limit   int    `json:"limit"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	limit := or(body.Limit, 10)
	var s *session.Session
	if body.Session != "" {
		if s, err = q.session(q.Context(), agent, body.Session); err != nil {
			return err
		}
	}
	found := map[string][]vikingFound{"memories": {}, "resources": {}, "skills": {}}
	if q.sv.opts.Memory != nil {
		err = q.searchMemory(found, body.Query, agent, s, limit)
	} else {
		err = q.searchSaid(found, body.Query, agent, s, limit)
	}
	if err != nil {
		return err
	}
	total := len(found["memories"]) + len(found["resources"]) + len(found["skills"])
	q.envelope(http.StatusOK, map[string]any{
		"memories": found["memories"], "resources": found["resources"], "skills": found["skills"], "total": total,
	}, nil)
	return nil
}

// searchMemory searches memories, and a session if there is one.
func (q *request) searchMemory(found map[string][]vikingFound, query, agent string, s *session.Session, limit int) error {
	opts := &memory.SearchOptions{Scope: memory.Scope{Agent: agent, Owner: q.who.Owner}, Limit: limit}
	if s != nil {
		info, err := s.Info(q.Context())
		if err != nil {
			return err
		}
		opts.Scope.Owner, opts.Sessions = info.Owner, []*session.Session{s}
	}
	if opts.Scope.Owner == "" && s == nil {
		return nil // nobody's memories
	}
	hits, err := q.sv.opts.Memory.Search(q.Context(), query, opts)
	for _, h := range hits {
		in, kind := "resources", h.Kind
		switch h.Kind {
		case "memory":
			in = "memories"
		case "skill":
			in = "skills"
		case "context":
			kind = "resource"
		}
		found[in] = append(found[in], vikingFound{h.URI, kind, h.Text, h.Score})
	}
	return err
}

// searchSaid searches what was said.
func (q *request) searchSaid(found map[string][]vikingFound, text, agent string, s *session.Session, limit int) error {
	query := search.Query{Text: text, Ranked: true, Limit: limit, Sessions: session.ListOptions{Key: session.Key{Agent: agent}}}
	hits := search.Store(q.Context(), q.store, query)
	if s != nil {
		hits = search.Session(q.Context(), s, query)
	}
	for hit, err := range hits {
		if err != nil {
			return err
		}
		uri := "viking://session/" + hit.Session.ID + "/#" + hit.Entry
		found["resources"] = append(found["resources"], vikingFound{uri, "session", hit.Excerpt, hit.Score})
	}
	return nil
}
