// Package openviking serves the routes of OpenViking: sessions with messages, commits
// and search, below /api/v1. [URI] and [ParseURI] convert its names of sessions.
//
// Each route is one line of the table in New. Commits, archives, which are chapters, and
// records of use go to package memory; searches go to package memory, or without it to
// package search; the rest goes to package session.
package openviking

import (
	"cmp"
	"io/fs"
	"net/http"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// New returns the surface, for one server, with the sessions of an agent. It searches
// Options.Memory, or without memories the conversations.
func New(agent string) serve.Surface {
	sf := &surface{agent: agent}
	return serve.Surface{Fail: fail, Routes: []serve.Route{
		{Method: "POST", Path: "/api/v1/sessions", Summary: "Create a session.", Do: sf.create},
		{Method: "GET", Path: "/api/v1/sessions", Summary: "List sessions.", Do: sf.list},
		{Method: "GET", Path: "/api/v1/sessions/{id}", Summary: "Describe a session.", Do: sf.about(sf.get)},
		{Method: "DELETE", Path: "/api/v1/sessions/{id}", Summary: "Delete a session.", Audit: "delete", Do: sf.about(remove)},
		{Method: "POST", Path: "/api/v1/sessions/{id}/messages", Summary: "Add a message.", Do: sf.about(sf.add)},
		{Method: "POST", Path: "/api/v1/sessions/{id}/used", Summary: "Record what helped.", Do: sf.about(used)},
		{Method: "POST", Path: "/api/v1/sessions/{id}/commit", Summary: "Archive the messages.", Do: sf.about(commit)},
		{Method: "GET", Path: "/api/v1/sessions/{id}/archives/{archive}", Summary: "Read an archive.", Do: sf.about(archive)},
		{Method: "POST", Path: "/api/v1/search/search", Summary: "Search what was said.", Do: sf.search},
	}}
}

type surface struct {
	agent  string
	counts counts
}

// answer answers as OpenViking does.
func answer(q *serve.Request, result any) error {
	q.JSON(http.StatusOK, struct {
		Status string  `json:"status"`
		Result any     `json:"result"`
		Time   float64 `json:"time"`
	}{"ok", result, time.Since(q.Began).Seconds()})
	return nil
}

func fail(q *serve.Request, p *serve.Problem) {
	type failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	message := p.Title
	if p.Detail != "" {
		message += ": " + p.Detail
	}
	q.JSON(p.Status, struct {
		Status string  `json:"status"`
		Error  failure `json:"error"`
		Time   float64 `json:"time"`
	}{"error", failure{p.Code, message}, time.Since(q.Began).Seconds()})
}

// user is the name of the owner of a session.
func user(owner string) string { return cmp.Or(owner, "default") }

type sessionInfo struct {
	ID           string `json:"session_id"`
	User         string `json:"user,omitempty"`
	MessageCount *int   `json:"message_count,omitempty"`
}

// about answers a request about the session in its path.
func (sf *surface) about(f func(*serve.Request, *session.Session) error) func(*serve.Request) error {
	return func(q *serve.Request) error {
		s, err := q.Session(sf.agent, q.PathValue("id"))
		if err != nil {
			return err
		}
		return f(q, s)
	}
}

func (sf *surface) create(q *serve.Request) error {
	if !q.Principal.May(sf.agent) {
		return fs.ErrNotExist
	}
	var body struct {
		ID string `json:"session_id"`
	}
	if err := q.Decode(&body); err != nil {
		return err
	}
	s, err := q.Create(sf.agent, body.ID)
	if err != nil {
		return err
	}
	return answer(q, sessionInfo{ID: s.Ref().ID, User: user(q.Principal.Owner)})
}

func (sf *surface) list(q *serve.Request) error {
	infos, err := q.Sessions(&session.ListOptions{Key: session.Key{Agent: sf.agent}})
	if err != nil {
		return err
	}
	out := make([]sessionInfo, 0, len(infos))
	for _, i := range infos {
		out = append(out, sessionInfo{ID: i.ID, User: user(i.Owner)})
	}
	return answer(q, out)
}

func (sf *surface) get(q *serve.Request, s *session.Session) error {
	n, err := sf.counts.of(q.Context(), s)
	if err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	return answer(q, sessionInfo{s.Ref().ID, user(info.Owner), &n})
}

func remove(q *serve.Request, s *session.Session) error {
	if err := retain.Delete(q.Context(), q.Store, s.Ref()); err != nil {
		return err
	}
	return answer(q, map[string]string{"session_id": s.Ref().ID})
}

func (sf *surface) add(q *serve.Request, s *session.Session) error {
	var body struct {
		Role    string      `json:"role"`
		Content string      `json:"content"`
		Parts   []said.Part `json:"parts"`
	}
	if err := q.Decode(&body); err != nil {
		return err
	}
	m, err := said.Message(body.Role, body.Content, body.Parts)
	if err != nil {
		return serve.Invalid(err.Error())
	}
	idem := q.Header.Get("Idempotency-Key")
	if idem != "" {
		idem = "http:" + idem
	}
	n, err := sf.counts.appendMessage(q.Context(), s, idem, m)
	if err != nil {
		return err
	}
	return answer(q, sessionInfo{ID: s.Ref().ID, MessageCount: &n})
}

func used(q *serve.Request, s *session.Session) error {
	var body struct {
		Contexts []string             `json:"contexts"`
		Skill    *transcript.SkillUse `json:"skill"`
	}
	if err := q.Decode(&body); err != nil {
		return err
	}
	var uses []memory.Use
	for _, uri := range body.Contexts {
		uses = append(uses, memory.Use{URI: uri})
	}
	if k := body.Skill; k != nil {
		uses = append(uses, memory.Use{Type: "skill", URI: k.URI, Input: k.Input, Output: k.Output, Success: k.Success})
	}
	if len(uses) == 0 {
		return serve.Invalid("name contexts or a skill")
	}
	if err := memory.RecordUse(q.Context(), s, uses...); err != nil {
		return err
	}
	stats, err := memory.ReadStats(q.Context(), s)
	if err != nil {
		return err
	}
	return answer(q, map[string]any{"session_id": s.Ref().ID, "contexts_used": stats.Contexts, "skills_used": stats.Skills})
}

func commit(q *serve.Request, s *session.Session) error {
	if err := q.Decode(&struct{}{}); err != nil {
		return err
	}
	done, err := memory.Commit(q.Context(), s, nil)
	if err != nil {
		return err
	}
	learned := q.Learn(s)
	stats, err := memory.ReadStats(q.Context(), s)
	if err != nil {
		return err
	}
	return answer(q, map[string]any{
		"session_id": s.Ref().ID, "status": "committed", "archived": done.Chapter != "", "memories_extracted": learned, "stats": stats,
	})
}

func archive(q *serve.Request, s *session.Session) error {
	name := q.PathValue("archive")
	chapters, err := memory.Chapters(q.Context(), s)
	if err != nil {
		return err
	}
	for _, a := range chapters {
		if archiveName(a.Name) != name {
			continue
		}
		h, err := memory.ReadChapter(q.Context(), s, a.Name)
		if err != nil {
			return err
		}
		return answer(q, map[string]any{"archive_id": name, "abstract": a.Abstract, "overview": a.Overview, "messages": messagesOf(h.Messages)})
	}
	return fs.ErrNotExist
}

func messagesOf(messages []transcript.Message) []map[string]any {
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
				parts = append(parts, map[string]any{"type": "tool", "tool_id": b.CallID, "tool_output": said.Result(b)})
			}
		}
		out = append(out, map[string]any{"role": m.Role, "parts": parts})
	}
	return out
}

// A result is a hit of a search.
type result struct {
	URI      string  `json:"uri"`
	Type     string  `json:"context_type"`
	Abstract string  `json:"abstract"`
	Score    float64 `json:"score"`
}

// search searches memories and one session, or the conversations of all sessions that
// the principal may see.
func (sf *surface) search(q *serve.Request) error {
	if !q.Principal.May(sf.agent) {
		return fs.ErrNotExist
	}
	var body struct {
		Query   string `json:"query"`
		Session string `json:"session_id"`
		Limit   int    `json:"limit"`
	}
	if err := q.Decode(&body); err != nil {
		return err
	}
	limit := cmp.Or(body.Limit, 10)
	var s *session.Session
	var err error
	if body.Session != "" {
		if s, err = q.Session(sf.agent, body.Session); err != nil {
			return err
		}
	}
	found := map[string][]result{"memories": {}, "resources": {}, "skills": {}}
	if q.Memory != nil {
		err = searchMemory(q, found, body.Query, sf.agent, s, limit)
	} else {
		err = searchSaid(q, found, body.Query, sf.agent, s, limit)
	}
	if err != nil {
		return err
	}
	total := len(found["memories"]) + len(found["resources"]) + len(found["skills"])
	return answer(q, map[string]any{
		"memories": found["memories"], "resources": found["resources"], "skills": found["skills"], "total": total,
	})
}

// searchMemory searches memories, and a session if there is one.
func searchMemory(q *serve.Request, found map[string][]result, query, agent string, s *session.Session, limit int) error {
	opts := &memory.SearchOptions{Scope: memory.Scope{Agent: agent, Owner: q.Principal.Owner}, Limit: limit}
	if s != nil {
		info, err := s.Info(q.Context())
		if err != nil {
			return err
		}
		opts.Scope.Owner, opts.Sessions = info.Owner, []*session.Session{s}
	}
	if opts.Scope.Owner == "" && s == nil {
		return nil // no owner's memories
	}
	hits, err := q.Memory.Search(q.Context(), query, opts)
	for _, h := range hits {
		in, kind, uri := "resources", h.Kind, h.URI
		switch h.Kind {
		case "memory":
			in = "memories"
		case "skill":
			in = "skills"
		case "context":
			kind = "resource"
		case "chapter":
			kind, uri = "archive", archiveURI(h)
		}
		found[in] = append(found[in], result{uri, kind, h.Text, h.Score})
	}
	return err
}

// searchSaid searches conversations.
func searchSaid(q *serve.Request, found map[string][]result, text, agent string, s *session.Session, limit int) error {
	query := search.Query{Text: text, Ranked: true, Limit: limit, Sessions: session.ListOptions{Key: session.Key{Agent: agent}}}
	hits := search.Store(q.Context(), q.Store, query)
	if s != nil {
		hits = search.Session(q.Context(), s, query)
	}
	for hit, err := range hits {
		if err != nil {
			return err
		}
		uri := "viking://session/" + hit.Session.ID + "/#" + hit.Entry
		found["resources"] = append(found["resources"], result{uri, "session", hit.Excerpt, hit.Score})
	}
	return nil
}
