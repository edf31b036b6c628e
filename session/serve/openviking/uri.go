package openviking

import (
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/convolog/convolog/session"
)

const (
	uriSessions = "viking://session/"
	uriQuery    = "?agent="
	uriAgent    = "main" // the agent of a URI that names no agent
)

// URI returns the URI of a session in OpenViking: viking://session/<id>/, and for an
// agent other than main viking://session/<id>/?agent=<agent>. A Ref with only an agent
// gives viking://session/?agent=<agent>, which means all sessions of the agent. The zero
// Ref gives viking://session/, which means all sessions. Reserved bytes become %xx, so no
// two sessions share a URI.
func URI(ref session.Ref) string {
	path := uriSessions
	if ref.ID != "" {
		path += url.PathEscape(ref.ID) + "/"
	}
	if ref.Agent == "" || ref.ID != "" && ref.Agent == uriAgent {
		return path
	}
	return path + uriQuery + url.QueryEscape(ref.Agent)
}

// archiveName returns the name of a chapter in OpenViking: archive_001 for chapter_001.
func archiveName(chapter string) string {
	return strings.Replace(chapter, "chapter", "archive", 1)
}

// archiveURI returns the URI of a chapter in OpenViking.
func archiveURI(ref session.Ref, chapter string) string {
	uri := URI(ref)
	end := strings.LastIndexByte(uri, '/') + 1 // the end of the ID
	return uri[:end] + "history/" + archiveName(chapter) + "/" + uri[end:]
}

// entryURI returns the URI of an entry. OpenViking has no such URIs.
func entryURI(ref session.Ref, entry string) string { return URI(ref) + "#" + entry }

// ParseURI returns the Ref that a URI names, for [session.Store.Get] and
// [session.Store.Delete]. If the URI names no session, the ID of the Ref is empty; then pass
// its Agent to [session.ListOptions], where an empty Agent means all agents. ParseURI accepts
// results of [URI], and the URI of a session without its last slash. Any other text gives an
// error that matches [fs.ErrInvalid], even the URI of a memory or of a file inside a session.
func ParseURI(uri string) (session.Ref, error) {
	path, agent, _ := strings.Cut(strings.TrimPrefix(uri, uriSessions), uriQuery)
	id, idErr := url.PathUnescape(strings.TrimSuffix(path, "/"))
	agent, agentErr := url.QueryUnescape(agent)
	ref := session.Ref{Agent: agent, ID: id}
	if agent == "" && id != "" {
		ref.Agent = uriAgent
	}
	if back := URI(ref); idErr != nil || agentErr != nil || back != uri && back != uri+"/" {
		return session.Ref{}, fmt.Errorf("openviking: %q is not the URI of a session: want viking://session/<id>/ or viking://session/<id>/?agent=<agent>: %w", uri, fs.ErrInvalid)
	}
	return ref, nil
}
