// Package openviking serves the routes of OpenViking: sessions with messages, commits
// and search, below /api/v1. [URI] and [ParseURI] convert names of sessions.
//
// Each route is one line of the table in New. OpenViking's archives are our chapters.
// Package memory serves commits, chapters and records of use, and also searches if
// Options.Memory is set. Otherwise package search serves searches. Package session serves
// the rest.
//
// Memories need an owner. Sessions that an administrator without an owner creates here
// belong to Options.Owner, as the answers report. A session of another surface may have no
// owner; then it has no user and no memories.
//
// A commit archives every message except the turn of an unfinished call and a running
// turn. Its answer counts the rest in not_archived, and explains in memories_reason why no
// memory was extracted. The commit ends before the server answers. Its task is therefore
// completed; if the extraction failed, the task is failed until a later commit succeeds.
// Messages to a missing session create it.
//
// Folders, resources and skills of OpenViking have no counterpart here. Their routes
// answer 501 and the reason, see the table elsewhere.
package openviking

import (
	"cmp"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// Options are the options of [New].
type Options struct {
	// Owner is the owner of the sessions and memories of an administrator without an owner;
	// empty means "default". No user of a server with such an administrator may have this owner: the
	// server refuses the user's key of [serve.Keys], and any other Auth must refuse it.
	Owner string
}

// New returns the surface for one server. It serves the sessions of one agent. Searches
// read Memory of the [serve.Options] if it is set, and otherwise the conversations. Nil
// opts mean the defaults.
func New(agent string, opts *Options) serve.Surface {
	sf := &surface{agent: agent, owner: cmp.Or(cmp.Or(opts, new(Options)).Owner, "default")}
	return serve.Surface{Fail: fail, Owner: sf.owner, Routes: slices.Concat([]serve.Route{
		on(serve.Route{Method: "POST", Path: "/api/v1/sessions", Summary: "Create a session."}, sf.open),
		on(serve.Route{Method: "GET", Path: "/api/v1/sessions", Summary: "List sessions."}, sf.list),
		on(serve.Route{Method: "GET", Path: "/api/v1/sessions/{id}", Summary: "Describe a session."}, sf.get),
		onSession(sf, serve.Route{Method: "DELETE", Path: "/api/v1/sessions/{id}", Audit: "delete", Summary: "Delete a session."}, remove),
		on(serve.Route{Method: "POST", Path: "/api/v1/sessions/{id}/messages", Summary: "Add a message."}, sf.add),
		on(serve.Route{Method: "POST", Path: "/api/v1/sessions/{id}/messages/batch", Summary: "Add messages."}, sf.addAll),
		onSession(sf, serve.Route{Method: "PATCH", Path: "/api/v1/sessions/{id}/config", Summary: "Turn off the settings of a session."}, setConfig),
		onSession(sf, serve.Route{Method: "GET", Path: "/api/v1/sessions/{id}/context", Summary: "Read the last overview and the messages since."}, readContext),
		onSession(sf, serve.Route{Method: "GET", Path: "/api/v1/sessions/{id}/tool-results", Summary: "List results of tools."}, listResults),
		onSession(sf, serve.Route{Method: "GET", Path: "/api/v1/sessions/{id}/tool-results/{call}", Summary: "Read the result of a tool."}, readResult),
		onSession(sf, serve.Route{Method: "GET", Path: "/api/v1/sessions/{id}/tool-results/{call}/search", Summary: "Search the result of a tool."}, matchResult),
		onSession(sf, serve.Route{Method: "POST", Path: "/api/v1/sessions/{id}/used", Summary: "Record used contexts and skills."}, used),
		onSession(sf, serve.Route{Method: "POST", Path: "/api/v1/sessions/{id}/commit", Summary: "Archive the messages."}, commit),
		onSession(sf, serve.Route{Method: "GET", Path: "/api/v1/sessions/{id}/archives/{archive}", Summary: "Read an archive."}, readArchive),
		on(serve.Route{Method: "POST", Path: "/api/v1/search/search", Summary: "Search memories or conversations."}, sf.search),
		on(serve.Route{Method: "POST", Path: "/api/v1/search/find", Summary: "Search without a session."}, sf.search),
		on(serve.Route{Method: "GET", Path: "/api/v1/tasks/{task}", Summary: "Describe a commit."}, sf.task),
		on(serve.Route{Method: "GET", Path: "/api/v1/fs/ls", Summary: "List sessions as a folder.", Out: answer[[]node]{}}, sf.ls),
		on(serve.Route{Method: "DELETE", Path: "/api/v1/fs", Audit: "delete", Summary: "Delete a session by its URI."}, sf.rm),
		on(serve.Route{Method: "GET", Path: "/api/v1/system/status", Summary: "Describe the sender."}, sf.describe),
		{Method: "GET", Path: "/health", Summary: "Report that the server is running.", Out: health{}, Public: true, Do: reportHealth},
	}, sf.elsewhere())}
}

// The bodies and answers of the routes.
type (
	sessionBody struct {
		ID string `json:"session_id,omitempty"`
	}
	sessionQuery struct {
		Create bool `json:"auto_create"`
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
	archive struct {
		ID       string    `json:"archive_id"`
		Abstract string    `json:"abstract"`
		Overview string    `json:"overview"`
		Messages []message `json:"messages"`
	}
)

func (sf *surface) open(q *serve.Request, body sessionBody) (out sessionInfo, err error) {
	if !q.Principal.May(sf.agent) {
		return out, fs.ErrNotExist
	}
	s, err := sf.create(q, body.ID)
	if err != nil {
		return out, err
	}
	return sessionInfo{ID: s.Ref().ID, User: sf.user(q), URI: URI(s.Ref())}, nil
}

func (sf *surface) list(q *serve.Request, _ none) (out []sessionInfo, err error) {
	infos, err := q.Sessions(&session.ListOptions{Key: session.Key{Agent: sf.agent}})
	out = make([]sessionInfo, 0, len(infos))
	for _, i := range infos {
		out = append(out, sessionInfo{ID: i.ID, User: i.Owner})
	}
	return out, err
}

func (sf *surface) get(q *serve.Request, query sessionQuery) (out sessionInfo, err error) {
	find := func(q *serve.Request) (*session.Session, error) { return q.Session(sf.agent, q.PathValue("id")) }
	if query.Create {
		find = sf.findOrCreate
	}
	s, err := find(q)
	if err != nil {
		return out, err
	}
	n, err := sf.counts.of(q.Context(), s)
	if err != nil {
		return out, err
	}
	info, err := s.Info(q.Context())
	return sessionInfo{s.Ref().ID, info.Owner, &n, URI(s.Ref())}, err
}

func remove(q *serve.Request, s *session.Session, _ none) (out sessionInfo, err error) {
	return sessionInfo{ID: s.Ref().ID}, retain.Delete(q.Context(), q.Store, s.Ref())
}

func used(q *serve.Request, s *session.Session, body useBody) (out sessionUse, err error) {
	var uses []memory.Use
	for _, uri := range body.Contexts {
		uses = append(uses, memory.Use{URI: uri})
	}
	if k := body.Skill; k != nil {
		uses = append(uses, memory.Use{Type: "skill", URI: k.URI, Input: k.Input, Output: k.Output, Success: k.Success})
	}
	if len(uses) == 0 || slices.ContainsFunc(uses, func(u memory.Use) bool { return u.URI == "" }) {
		return out, serve.Invalid("name contexts or a skill by their URIs")
	}
	if err := memory.RecordUse(q.Context(), s, uses...); err != nil {
		return out, err
	}
	stats, err := memory.ReadStats(q.Context(), s)
	return sessionUse{s.Ref().ID, stats.Contexts, stats.Skills}, err
}

func readArchive(q *serve.Request, s *session.Session, _ none) (out archive, err error) {
	name := q.PathValue("archive")
	chapters, err := memory.Chapters(q.Context(), s)
	if err != nil {
		return out, err
	}
	for _, a := range chapters {
		if archiveName(a.Name) != name {
			continue
		}
		h, err := memory.ReadChapter(q.Context(), s, a.Name)
		return archive{name, a.Abstract, a.Overview, messagesOf(h.Messages)}, err
	}
	return out, fs.ErrNotExist
}
