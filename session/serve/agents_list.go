package serve

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
)

// values returns the values of a parameter that may be repeated.
func (q *request) values(name string) []string {
	query := q.URL.Query()
	return append(query[name], query[name+"[]"]...)
}

// within returns what the parameters say about the time of creation.
func (q *request) within() (func(time.Time) bool, error) {
	type bound struct {
		at   time.Time
		fits func(int) bool
	}
	var bounds []bound
	for name, fits := range map[string]func(int) bool{
		"gt": func(c int) bool { return c > 0 }, "gte": func(c int) bool { return c >= 0 },
		"lt": func(c int) bool { return c < 0 }, "lte": func(c int) bool { return c <= 0 },
	} {
		text := q.URL.Query().Get("created_at[" + name + "]")
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, invalid("created_at[" + name + "] is not a time")
		}
		bounds = append(bounds, bound{at, fits})
	}
	return func(t time.Time) bool {
		return !slices.ContainsFunc(bounds, func(b bound) bool { return !b.fits(t.Compare(b.at)) })
	}, nil
}

// window returns the size of a page and whether the newest come first.
func (q *request) window(most int, other string) (limit int, desc bool, err error) {
	if limit, err = q.number("limit", 100); err != nil {
		return 0, false, err
	}
	if limit < 1 || limit > most {
		return 0, false, invalid("the limit is not one that the route takes")
	}
	switch order := cmp.Or(q.URL.Query().Get("order"), other); order {
	case "asc", "desc":
		return limit, order == "desc", nil
	}
	return 0, false, invalid("the order is neither asc nor desc")
}

// A sessionCursor is a place in a list of sessions, and the direction of the page.
type sessionCursor struct {
	Back    bool
	Created time.Time
	Agent   string
	ID      string
}

func cursorOf(i session.Info, back bool) string {
	data, _ := json.Marshal(sessionCursor{back, i.CreatedAt, i.Agent, i.ID}) //nolint:errchkjson // it has only texts and a time
	return base64.RawURLEncoding.EncodeToString(data)
}

// compare orders sessions by their creation.
func (c sessionCursor) compare(i session.Info) int {
	return cmp.Or(i.CreatedAt.Compare(c.Created), cmp.Compare(i.Agent, c.Agent), cmp.Compare(i.ID, c.ID))
}

func (q *request) agentsList() error {
	limit, desc, err := q.window(1000, "desc")
	if err != nil {
		return err
	}
	infos, err := q.agentsListed()
	if err != nil {
		return err
	}
	slices.SortFunc(infos, func(a, b session.Info) int {
		c := sessionCursor{Created: b.CreatedAt, Agent: b.Agent, ID: b.ID}.compare(a)
		if desc {
			c = -c
		}
		return c
	})
	begin, end := 0, min(limit, len(infos))
	if text := q.URL.Query().Get("page"); text != "" {
		var c sessionCursor
		if data, err := base64.RawURLEncoding.DecodeString(text); err != nil || json.Unmarshal(data, &c) != nil {
			return session.ErrCursor
		}
		at, found := slices.BinarySearchFunc(infos, c, func(i session.Info, c sessionCursor) int {
			if desc {
				return -c.compare(i)
			}
			return c.compare(i)
		})
		switch {
		case c.Back:
			begin, end = max(0, at-limit), at
		case found:
			begin, end = at+1, min(at+1+limit, len(infos))
		default:
			begin, end = at, min(at+limit, len(infos))
		}
	}
	out := object{"next_page": nil, "prev_page": nil}
	data := []object{}
	for _, i := range infos[begin:end] {
		data = append(data, q.sv.agentsInfo(i, q.sv.listStatus(i)))
	}
	if end < len(infos) && end > begin {
		out["next_page"] = cursorOf(infos[end-1], false)
	}
	if begin > 0 && end > begin {
		out["prev_page"] = cursorOf(infos[begin], true)
	}
	out["data"] = data
	q.json(http.StatusOK, out)
	return nil
}

// agentsListed returns the sessions that the parameters ask for.
func (q *request) agentsListed() ([]session.Info, error) {
	within, err := q.within()
	if err != nil {
		return nil, err
	}
	query := q.URL.Query()
	infos, err := q.list(&session.ListOptions{Key: session.Key{Agent: query.Get("agent_id")}, State: session.AnyState})
	if err != nil {
		return nil, err
	}
	archived, statuses := query.Get("include_archived") == "true", q.values("statuses")
	foreign := query.Get("deployment_id") != "" || query.Get("memory_store_id") != "" // which no session has
	return slices.DeleteFunc(infos, func(i session.Info) bool {
		return foreign || !within(i.CreatedAt) || i.State == session.Archived && !archived ||
			len(statuses) > 0 && !slices.Contains(statuses, q.sv.listStatus(i))
	}), nil
}
