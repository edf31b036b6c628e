// Package openviking serves the routes of OpenViking: sessions with messages, commits
// and search, below /api/v1. [URI] and [ParseURI] convert names of sessions.
//
// Each route is one line of the table in New. OpenViking's archives are our chapters.
// Package memory serves commits, chapters and records of use, and also searches if
// Options.Memory is set. Otherwise package search serves searches. Package session serves
// the rest.
package openviking

import (
	"cmp"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// New returns the surface for one server. It serves the sessions of one agent. Searches
// read Options.Memory if it is set, and otherwise the conversations.
func New(agent string) serve.Surface {
	sf := &surface{agent: agent}
	return serve.Surface{Fail: fail, Routes: []serve.Route{
		{Method: "POST", Path: "/api/v1/sessions", Summary: "Create a session.", In: sessionBody{}, Out: answer[sessionInfo]{}, Do: sf.create},
		{Method: "GET", Path: "/api/v1/sessions", Summary: "List sessions.", Out: answer[[]sessionInfo]{}, Do: sf.list},
		{Method: "GET", Path: "/api/v1/sessions/{id}", Summary: "Describe a session.", Out: answer[sessionInfo]{}, Do: sf.about(sf.get)},
		{Method: "DELETE", Path: "/api/v1/sessions/{id}", Audit: "delete", Summary: "Delete a session.", Out: answer[sessionInfo]{}, Do: sf.about(remove)},
		{Method: "POST", Path: "/api/v1/sessions/{id}/messages", Summary: "Add a message.", In: messageBody{}, Out: answer[sessionInfo]{}, Do: sf.about(sf.add)},
		{Method: "POST", Path: "/api/v1/sessions/{id}/used", Summary: "Record used contexts and skills.", In: useBody{}, Out: answer[sessionUse]{}, Do: sf.about(used)},
		{Method: "POST", Path: "/api/v1/sessions/{id}/commit", Summary: "Archive the messages.", In: struct{}{}, Out: answer[commitResult]{}, Do: sf.about(commit)},
		{Method: "GET", Path: "/api/v1/sessions/{id}/archives/{archive}", Summary: "Read an archive.", Out: answer[archive]{}, Do: sf.about(readArchive)},
		{Method: "POST", Path: "/api/v1/search/search", Summary: "Search memories or conversations.", In: queryBody{}, Out: answer[searchResult]{}, Do: sf.search},
	}}
}

type surface struct {
	agent  string
	counts counts
}

// An answer is the common form of OpenViking's answers.
type answer[T any] struct {
	Status string  `json:"status"`
	Result T       `json:"result"`
	Time   float64 `json:"time"`
}

func reply[T any](q *serve.Request, result T) error {
	q.JSON(http.StatusOK, answer[T]{"ok", result, time.Since(q.Began).Seconds()})
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

// user returns OpenViking's name for the owner of a session.
func user(owner string) string { return cmp.Or(owner, "default") }

// The bodies and answers of the routes.
type (
	sessionBody struct {
		ID string `json:"session_id,omitempty"`
	}
	messageBody struct {
		Role    string      `json:"role"`
		Content string      `json:"content,omitempty"`
		Parts   []said.Part `json:"parts,omitempty"`
	}
	useBody struct {
		Contexts []string             `json:"contexts,omitempty"`
		Skill    *transcript.SkillUse `json:"skill,omitempty"`
	}
	sessionUse struct {
		ID       string `json:"session_id"`
		Contexts int    `json:"contexts_used"`
		Skills   int    `json:"skills_used"`
	}
	commitResult struct {
		ID       string       `json:"session_id"`
		Status   string       `json:"status"`
		Archived bool         `json:"archived"`
		Memories int          `json:"memories_extracted"`
		Stats    memory.Stats `json:"stats"`
	}
	archive struct {
		ID       string    `json:"archive_id"`
		Abstract string    `json:"abstract"`
		Overview string    `json:"overview"`
		Messages []message `json:"messages"`
	}
	message struct {
		Role  transcript.Role  `json:"role"`
		Parts []map[string]any `json:"parts"`
	}
	queryBody struct {
		Query   string `json:"query"`
		Session string `json:"session_id,omitempty"`
		Limit   int    `json:"limit,omitempty"`
	}
	searchResult struct {
		Memories  []result `json:"memories"`
		Resources []result `json:"resources"`
		Skills    []result `json:"skills"`
		Total     int      `json:"total"`
	}
)

type sessionInfo struct {
	ID           string `json:"session_id"`
	User         string `json:"user,omitempty"`
	MessageCount *int   `json:"message_count,omitempty"`
}

// about calls f with the session in the path of a request.
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
	var body sessionBody
	if err := q.Decode(&body); err != nil {
		return err
	}
	s, err := q.Create(sf.agent, body.ID)
	if err != nil {
		return err
	}
	return reply(q, sessionInfo{ID: s.Ref().ID, User: user(q.Principal.Owner)})
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
	return reply(q, out)
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
	return reply(q, sessionInfo{s.Ref().ID, user(info.Owner), &n})
}

func remove(q *serve.Request, s *session.Session) error {
	if err := retain.Delete(q.Context(), q.Store, s.Ref()); err != nil {
		return err
	}
	return reply(q, sessionInfo{ID: s.Ref().ID})
}

func (sf *surface) add(q *serve.Request, s *session.Session) error {
	var body messageBody
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
	return reply(q, sessionInfo{ID: s.Ref().ID, MessageCount: &n})
}

func used(q *serve.Request, s *session.Session) error {
	var body useBody
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
	if len(uses) == 0 || slices.ContainsFunc(uses, func(u memory.Use) bool { return u.URI == "" }) {
		return serve.Invalid("name contexts or a skill by their URIs")
	}
	if err := memory.RecordUse(q.Context(), s, uses...); err != nil {
		return err
	}
	stats, err := memory.ReadStats(q.Context(), s)
	if err != nil {
		return err
	}
	return reply(q, sessionUse{s.Ref().ID, stats.Contexts, stats.Skills})
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
	return reply(q, commitResult{s.Ref().ID, "committed", done.Chapter != "", learned, stats})
}

func readArchive(q *serve.Request, s *session.Session) error {
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
		return reply(q, archive{name, a.Abstract, a.Overview, messagesOf(h.Messages)})
	}
	return fs.ErrNotExist
}

func messagesOf(messages []transcript.Message) []message {
	out := []message{}
	for _, m := range messages {
		parts := []map[string]any{}
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
		out = append(out, message{m.Role, parts})
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

// search searches Options.Memory, and also the session of the query if it names one.
// Without Options.Memory it searches the conversation of that session, or else of all
// sessions that the principal may see.
func (sf *surface) search(q *serve.Request) error {
	if !q.Principal.May(sf.agent) {
		return fs.ErrNotExist
	}
	var body queryBody
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
	hits := map[string][]result{"memories": {}, "resources": {}, "skills": {}}
	if q.Memory != nil {
		err = searchMemory(q, hits, body.Query, sf.agent, s, limit)
	} else {
		err = searchSaid(q, hits, body.Query, sf.agent, s, limit)
	}
	if err != nil {
		return err
	}
	memories, resources, skills := hits["memories"], hits["resources"], hits["skills"]
	return reply(q, searchResult{memories, resources, skills, len(memories) + len(resources) + len(skills)})
}

// searchMemory searches memories, and also the session s if it is not nil.
func searchMemory(q *serve.Request, found map[string][]result, text, agent string, s *session.Session, limit int) error {
	opts := &memory.SearchOptions{Scope: memory.Scope{Agent: agent, Owner: q.Principal.Owner}, Limit: limit}
	if s != nil {
		info, err := s.Info(q.Context())
		if err != nil {
			return err
		}
		opts.Scope.Owner, opts.Sessions = info.Owner, []*session.Session{s}
	}
	if opts.Scope.Owner == "" && s == nil {
		return nil // memories need an owner
	}
	hits, err := q.Memory.Search(q.Context(), text, opts)
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

// searchSaid searches the session s, or all sessions if s is nil.
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
