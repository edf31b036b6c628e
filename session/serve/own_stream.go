package serve

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
)

// ownFollow streams the entries of a session. Events have the IDs of the entries.
func (q *Request) ownFollow(s *session.Session, f struct {
	After string `json:"after"` // an entry; empty means the beginning
	Last  string `json:"lastEventId"`
},
) (done, error) {
	after := or(q.lastEventID(), f.After)
	for _, err := range s.Entries(q.Context(), after) {
		if err != nil { // there is no such entry
			return done{}, err
		}
		break
	}
	q.Stream(func(ctx context.Context, send func(id, name string, data any) error) error {
		for e, err := range s.Follow(ctx, after) {
			if err == nil {
				err = send(e.ID, "entry", e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return done{}, nil
}

// ownChanges streams changed sessions. After an event without a session, any session may
// have changed: list them.
func (q *Request) ownChanges(_ struct {
	Last string `json:"lastEventId"` // ignored: each stream begins with an event without a session
},
) (done, error) {
	q.Stream(func(ctx context.Context, send func(id, name string, data any) error) error {
		for ref, err := range q.Store.Follow(ctx) {
			if err == nil && (ref.Agent == "" || q.Principal.May(ref.Agent)) {
				err = send("", "changed", ref)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return done{}, nil
}

func (q *Request) ownSearch(query search.Query) (done, error) {
	chosen := &query.Sessions
	if len(q.Principal.Agents) == 1 {
		chosen.Agent = or(chosen.Agent, q.Principal.Agents[0])
	}
	if chosen.Agent == "" && len(q.Principal.Agents) > 1 {
		return done{}, Invalid("name one agent: sessions.agent")
	}
	if _, err := q.agent(chosen.Agent); err != nil && chosen.Agent != "" {
		return done{}, err
	}
	query.Limit = clamp(query.Limit, 100, 1000)
	return done{}, q.hits(search.Store(q.Context(), q.Store, query))
}

func (q *Request) ownSearchOne(s *session.Session, query search.Query) (done, error) {
	query.Limit = clamp(query.Limit, 100, 1000)
	return done{}, q.hits(search.Session(q.Context(), s, query))
}

// hits answers with one line for each hit. If the search fails after the first hit, the
// connection is cut.
func (q *Request) hits(hits iter.Seq2[search.Hit, error]) error {
	lines, flusher := json.NewEncoder(q.w), http.NewResponseController(q.w)
	for hit, err := range hits {
		if err != nil {
			return err
		}
		q.w.Header().Set("Content-Type", mediaLines)
		if err := lines.Encode(hit); err != nil {
			return nil // the client left
		}
		if err := flusher.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil
		}
	}
	q.w.Header().Set("Content-Type", mediaLines)
	return nil
}
