package openviking

import (
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/serve"
)

type (
	listQuery struct {
		URI    string `json:"uri"`
		Simple bool   `json:"simple"` // URIs alone
		Limit  int    `json:"limit" default:"1000"`
	}
	removeQuery struct {
		URI       string `json:"uri"`
		Recursive bool   `json:"recursive"`
	}
	removed struct {
		URI string `json:"uri"`
	}
	// A node is a session in a list of files.
	node struct {
		URI      string `json:"uri"`
		Name     string `json:"name"`
		Size     int    `json:"size"`
		IsDir    bool   `json:"isDir"`
		ModTime  string `json:"modTime"`
		Abstract string `json:"abstract"`
	}
	status struct {
		Initialized bool   `json:"initialized"`
		User        string `json:"user"`
	}
	health struct {
		Status  string `json:"status"`
		Healthy bool   `json:"healthy"`
	}
)

// ref returns the session that the parameter uri names, or a Ref without an ID for all.
func (sf *surface) ref(uri string) (session.Ref, error) {
	if uri+"/" == uriSessions {
		uri = uriSessions
	}
	ref, err := ParseURI(uri)
	switch {
	case err != nil && strings.HasPrefix(uri, uriSessions):
		return ref, fs.ErrNotExist
	case err != nil && strings.HasPrefix(uri, "viking://"):
		return ref, absent("only the URIs of sessions are served")
	case err != nil:
		return ref, serve.Invalid("the parameter uri is not the URI of a session")
	case ref.ID != "" && ref.Agent != sf.agent:
		return ref, absent("the surface serves the sessions of another agent")
	}
	return ref, nil
}

// ls lists the sessions.
func (sf *surface) ls(q *serve.Request, query listQuery) (out any, err error) {
	ref, err := sf.ref(query.URI)
	if err == nil && ref.ID != "" {
		err = absent("a session is no folder: read its messages and archives")
	}
	if err != nil {
		return out, err
	}
	infos, err := q.Sessions(&session.ListOptions{Key: session.Key{Agent: sf.agent}})
	nodes, uris := []node{}, []string{}
	for _, i := range infos[:min(query.Limit, len(infos))] {
		uri := URI(i.Ref)
		uris = append(uris, uri)
		nodes = append(nodes, node{uri, i.ID, 0, true, i.UpdatedAt.UTC().Format(time.RFC3339Nano), i.Title})
	}
	if query.Simple {
		return uris, err
	}
	return nodes, err
}

// rm deletes a session. OpenViking's clients set recursive, as a session is a folder there.
func (sf *surface) rm(q *serve.Request, query removeQuery) (out removed, err error) {
	ref, err := sf.ref(query.URI)
	if err == nil && ref.ID == "" {
		err = serve.Invalid("the URI names all sessions: delete them one by one")
	}
	if err == nil && !query.Recursive {
		err = serve.Invalid("a session is a folder: set recursive")
	}
	if err != nil {
		return out, err
	}
	q.SetPathValue("agent", ref.Agent) // for the audit
	q.SetPathValue("id", ref.ID)
	s, err := q.Session(sf.agent, ref.ID)
	if err != nil {
		return out, err
	}
	return removed{query.URI}, retain.Delete(q.Context(), q.Store, s.Ref())
}

func (sf *surface) describe(q *serve.Request, _ none) (out status, err error) {
	return status{true, sf.user(q)}, nil
}

func reportHealth(q *serve.Request) error {
	q.JSON(http.StatusOK, health{"ok", true})
	return nil
}
