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

// The forms of answers that are not one JSON value.
const (
	mediaEvents = "text/event-stream"
	mediaLines  = "application/jsonl"
	mediaText   = "text/plain; charset=utf-8"
)

// ownFollow streams the entries of a session. The IDs of the events are those of the
// entries.
func (q *request) ownFollow(s *session.Session, f struct {
	After string `json:"after"` // an entry; empty is the beginning
	Last  string `json:"lastEventId"`
},
) (done, error) {
	after := or(lastEventID(q.Request), f.After)
	for _, err := range s.Entries(q.Context(), after) {
		if err != nil { // there is no such entry
			return done{}, err
		}
		break
	}
	q.events(func(ctx context.Context, st *stream) error {
		for e, err := range s.Follow(ctx, after) {
			if err == nil {
				err = st.send(event{id: e.ID, name: "entry", data: e})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return done{}, nil
}

// ownChanges streams which sessions have changed. An event without a session says
// that any may have: list them.
func (q *request) ownChanges(_ struct {
	Last string `json:"lastEventId"` // there is nothing to go on with: the first event is such a one
},
) (done, error) {
	q.events(func(ctx context.Context, st *stream) error {
		for ref, err := range q.store.Follow(ctx) {
			if err == nil && (ref.Agent == "" || q.who.may(ref.Agent)) {
				err = st.send(event{name: "changed", data: ref})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return done{}, nil
}

// events answers with the events that f sends. If they end while the client is there
// the last one says why, unless the server is stopped.
func (q *request) events(f func(context.Context, *stream) error) {
	st := newStream(q.w)
	err := q.sv.during(q.Context(), st, func(ctx context.Context) error { return f(ctx, st) })
	if err == nil || q.Context().Err() != nil || q.sv.life.Err() != nil {
		return
	}
	p := problemOf(err)
	if p == errInternal && st.send(event{name: "end", data: p}) == nil {
		q.sv.opts.Logger.Warn("serve: a stream failed", "err", discreet(err))
		return
	}
	_ = st.send(event{name: "end", data: p})
}

func (q *request) ownSearch(query search.Query) (done, error) {
	chosen := &query.Sessions
	if len(q.who.Agents) == 1 {
		chosen.Agent = or(chosen.Agent, q.who.Agents[0])
	}
	if chosen.Agent == "" && len(q.who.Agents) > 1 {
		return done{}, invalid("say which agent: sessions.agent")
	}
	if _, err := q.agent(chosen.Agent); err != nil && chosen.Agent != "" {
		return done{}, err
	}
	query.Limit = clamp(query.Limit, 100, 1000)
	return done{}, q.hits(search.Store(q.Context(), q.store, query))
}

func (q *request) ownSearchOne(s *session.Session, query search.Query) (done, error) {
	query.Limit = clamp(query.Limit, 100, 1000)
	return done{}, q.hits(search.Session(q.Context(), s, query))
}

// hits answers with a line for each hit. If the search fails later on, the connection
// is cut.
func (q *request) hits(hits iter.Seq2[search.Hit, error]) error {
	lines, flusher := json.NewEncoder(q.w), http.NewResponseController(q.w)
	for hit, err := range hits {
		if err != nil {
			return err
		}
		q.w.Header().Set("Content-Type", mediaLines)
		if err := lines.Encode(hit); err != nil {
			return nil // the client is gone
		}
		if err := flusher.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil
		}
	}
	q.w.Header().Set("Content-Type", mediaLines)
	return nil
}
