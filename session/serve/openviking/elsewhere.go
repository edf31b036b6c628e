package openviking

import (
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

// elsewhere lists routes of OpenViking without a counterpart here, by reason.
var elsewhere = []struct{ reason, routes string }{
	{"sessions and memories are no folders: list viking://session/, or search", "GET /fs/tree, GET /fs/stat, POST /fs/mkdir, POST /fs/mv, GET /content/read, GET /content/abstract, GET /content/overview"},
	{"search has no patterns and no assembled context: use /search/search", "POST /search/grep, POST /search/glob, POST /search/recall"},
	{"the server holds no resources and no skills", "POST /resources, POST /skills"},
	{"a commit extracts the memories", "POST /sessions/{id}/extract"},
	{"a commit is over when the server answers: ask for one task", "GET /tasks, POST /tasks/{task}/cancel"},
}

// elsewhere returns the routes that only answer with the reason.
func (sf *surface) elsewhere() (routes []serve.Route) {
	for _, row := range elsewhere {
		for route := range strings.SplitSeq(row.routes, ", ") {
			method, path, _ := strings.Cut(route, " ")
			r := serve.Route{Method: method, Path: "/api/v1" + path, Summary: "Answer 501: " + row.reason + "."}
			if strings.Contains(path, "{id}") {
				routes = append(routes, onSession(sf, r, func(*serve.Request, *session.Session, none) (none, error) { return none{}, absent(row.reason) }))
			} else {
				routes = append(routes, on(r, func(*serve.Request, none) (none, error) { return none{}, absent(row.reason) }))
			}
		}
	}
	return routes
}
