package serve

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/convolog/convolog/session"
)

// ErrURI says that a text is not the URI of a session. The error says what it
// is taken for.
var ErrURI = errors.New("not the URI of a session")

const (
	uriScheme   = "viking://"
	uriSessions = uriScheme + "session/"
	uriQuery    = "?agent="
	uriAgent    = "main" // the agent that a URI of a session need not name
)

// URI returns the URI of a session: viking://session/<id>/, and for an agent other
// than main viking://session/<id>/?agent=<agent>. Of an agent alone it is that of its
// sessions, viking://session/?agent=<agent>, and of the zero Ref that of all sessions,
// viking://session/. Bytes that have a meaning in URIs are written as %xx, so no two
// sessions have the same one.
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

// ParseURI returns what a URI names: the Ref of a session for [session.Store.Get]
// and [session.Store.Delete], or one without an ID, whose Agent is for [session.ListOptions]: empty for
// the sessions of all agents. It takes what [URI] returns, and the URI of a session
// without the last slash. Anything else is refused with an error that matches
// [ErrURI]: URIs of memories, resources and skills, those of files inside of a
// session, and those of other schemes.
func ParseURI(uri string) (session.Ref, error) {
	rest, ok := strings.CutPrefix(uri, uriScheme)
	if !ok {
		return session.Ref{}, uriErrorf(uri, "it does not begin with %s", uriSessions)
	}
	path, query, _ := strings.Cut(rest, "?")
	space, path, _ := strings.Cut(path, "/")
	if space != "session" {
		return session.Ref{}, uriErrorf(uri, "it is in viking://%s/", space)
	}
	name, inside, _ := strings.Cut(path, "/")
	if inside != "" {
		return session.Ref{}, uriErrorf(uri, "it names %q inside of a session; use the URI of the session", inside)
	}
	var ref session.Ref
	var err error
	if ref.ID, err = url.PathUnescape(name); err != nil {
		return session.Ref{}, uriErrorf(uri, "%v", err)
	}
	if ref.ID != "" {
		ref.Agent = uriAgent
	}
	if query != "" {
		agent, ok := strings.CutPrefix("?"+query, uriQuery)
		if !ok || agent == "" {
			return session.Ref{}, uriErrorf(uri, "after the question mark it has %q and not agent=<agent>", query)
		}
		if ref.Agent, err = url.QueryUnescape(agent); err != nil {
			return session.Ref{}, uriErrorf(uri, "%v", err)
		}
	}
	if URI(ref) != uri && URI(ref) != uri+"/" {
		return session.Ref{}, uriErrorf(uri, "write it as %s", URI(ref))
	}
	return ref, nil
}

func uriErrorf(uri, format string, args ...any) error {
	return fmt.Errorf("%w: %q: %s", ErrURI, uri, fmt.Sprintf(format, args...))
}
