package adkstore

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	adk "google.golang.org/adk/v2/session"

	"github.com/convolog/convolog/session"
)

// A handle is a session as it was read, with the events that were appended to it since. It
// is safe for several goroutines.
type handle struct {
	name
	service *service // that kept belongs to; nil in a list, as kept
	kept    *session.Session

	mu      sync.Mutex // guards the fields below
	events  []*adk.Event
	state   map[string]any
	updated time.Time
}

func (h *handle) ID() string       { return h.id }
func (h *handle) AppName() string  { return h.app }
func (h *handle) UserID() string   { return h.userID }
func (h *handle) State() adk.State { return state{h} }

func (h *handle) Events() adk.Events {
	h.mu.Lock()
	defer h.mu.Unlock()
	return events(slices.Clip(h.events))
}

func (h *handle) LastUpdateTime() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.updated
}

// add adds an event that was appended, unless it was repeated and is there. Its temporary
// state stays in memory.
func (h *handle) add(event *adk.Event, repeated bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := func(e *adk.Event) bool { return e.ID == event.ID }
	if repeated && slices.ContainsFunc(h.events, same) {
		return
	}
	h.events = append(h.events, trimmed(event))
	maps.Copy(h.state, event.Actions.StateDelta)
	h.updated = event.Timestamp
}

type events []*adk.Event

func (e events) All() iter.Seq[*adk.Event] { return slices.Values(e) }
func (e events) Len() int                  { return len(e) }

func (e events) At(i int) *adk.Event {
	if i < 0 || i >= len(e) {
		return nil
	}
	return e[i]
}

// state is the state of a handle. Set changes it in memory alone: an event stores state.
type state struct{ h *handle }

func (s state) Get(name string) (any, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	value, ok := s.h.state[name]
	if !ok {
		return nil, adk.ErrStateKeyNotExist
	}
	return value, nil
}

func (s state) Set(name string, value any) error {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.state[name] = value
	return nil
}

func (s state) All() iter.Seq2[string, any] {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return maps.All(maps.Clone(s.h.state))
}
