package openviking

import (
	"cmp"
	"io/fs"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
)

type (
	queryBody struct {
		Query   string `json:"query"`
		Session string `json:"session_id,omitempty"`
		Limit   int    `json:"limit,omitempty"`      // at most 100
		Target  string `json:"target_uri,omitempty"` // the beginning of the URIs to find
		Mode    string `json:"mode,omitempty"`
	}
	searchResult struct {
		Memories  []result `json:"memories"`
		Resources []result `json:"resources"`
		Skills    []result `json:"skills"`
		Total     int      `json:"total"`
	}
	// A result is a hit of a search. Its type is memory, resource or skill: clients
	// refuse any other one.
	result struct {
		URI      string  `json:"uri"`
		Type     string  `json:"context_type"`
		Abstract string  `json:"abstract"`
		Score    float64 `json:"score"`
	}
)

// maxHits is the largest number of hits of a search. A larger limit of a client means it.
const maxHits = 100

// search searches Options.Memory, and also the session of the query if it names one.
// Without Options.Memory it searches the conversation of that session, or else of all
// sessions that the principal may see.
func (sf *surface) search(q *serve.Request, body queryBody) (out searchResult, err error) {
	if !q.Principal.May(sf.agent) {
		return out, fs.ErrNotExist
	}
	if body.Mode != "" && body.Mode != "list" {
		return out, absent("search has no assembled context: use the mode list")
	}
	var s *session.Session
	if body.Session != "" {
		if s, err = q.Session(sf.agent, body.Session); err != nil {
			return out, err
		}
	}
	f := finding{searchResult: searchResult{[]result{}, []result{}, []result{}, 0}, target: body.Target, limit: min(cmp.Or(max(body.Limit, 0), 10), maxHits)}
	if q.Memory != nil {
		err = f.memories(q, body.Query, memory.Scope{Agent: sf.agent, Owner: sf.user(q)}, s)
	} else {
		err = f.said(q, body.Query, sf.agent, s)
	}
	return f.searchResult, err
}

// A finding collects the hits of one search.
type finding struct {
	searchResult
	target string
	limit  int
}

// most returns the number of hits to look for. A target leaves some of them out.
func (f *finding) most() int {
	if f.target != "" {
		return maxHits
	}
	return f.limit
}

// add adds a hit. If neither its kind nor its URI names a memory or a skill, it is a
// resource: a session, a chapter and an entry are.
func (f *finding) add(kind, uri, abstract string, score float64) {
	if f.Total == f.limit || !strings.HasPrefix(uri, f.target) {
		return
	}
	to, as := &f.Resources, "resource"
	switch path := uri + "/"; {
	case kind == "memory" || strings.Contains(path, "/memories/"):
		to, as = &f.Memories, "memory"
	case kind == "skill" || strings.Contains(path, "/skills/"):
		to, as = &f.Skills, "skill"
	}
	*to = append(*to, result{uri, as, abstract, score})
	f.Total++
}

// memories searches memories, and also the session s if it is not nil.
func (f *finding) memories(q *serve.Request, text string, scope memory.Scope, s *session.Session) error {
	opts := &memory.SearchOptions{Scope: scope, Limit: f.most()}
	abstracts := map[string]string{} // of chapters
	if s != nil {
		info, err := s.Info(q.Context())
		if err != nil {
			return err
		}
		chapters, err := memory.Chapters(q.Context(), s)
		if err != nil {
			return err
		}
		for _, c := range chapters {
			abstracts[c.Name] = c.Abstract
		}
		opts.Scope.Owner, opts.Sessions = info.Owner, []*session.Session{s}
	}
	hits, err := q.Memory.Search(q.Context(), text, opts)
	for _, h := range hits {
		uri, abstract := h.URI, h.Text
		switch h.Kind {
		case "memory":
			abstract = h.Memory.Abstract
		case "chapter":
			uri, abstract = archiveURI(h.Session, h.Chapter), abstracts[h.Chapter]
		case "entry":
			uri = entryURI(h.Session, h.Entry)
		}
		f.add(h.Kind, uri, abstract, h.Score)
	}
	return err
}

// said searches the session s, or all sessions if s is nil.
func (f *finding) said(q *serve.Request, text, agent string, s *session.Session) error {
	query := search.Query{Text: text, Ranked: true, Limit: f.most(), Sessions: session.ListOptions{Key: session.Key{Agent: agent}}}
	hits := search.Store(q.Context(), q.Store, query)
	if s != nil {
		hits = search.Session(q.Context(), s, query)
	}
	for hit, err := range hits {
		if err != nil {
			return err
		}
		f.add("entry", entryURI(hit.Session, hit.Entry), hit.Excerpt, hit.Score)
	}
	return nil
}
