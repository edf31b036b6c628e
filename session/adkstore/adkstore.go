package adkstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	adk "google.golang.org/adk/v2/session"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// New returns a service that keeps its sessions in a store. The store must not be a scope,
// and stays open until the caller closes it. The service is safe for several goroutines,
// and several processes may use one store.
func New(store *session.Store) adk.Service { return &service{store} }

type service struct{ store *session.Store }

// The channels of keys: of sessions, and of sessions that hold shared state.
const (
	channel      = "adk"
	stateChannel = "adk-state"
)

// Create implements [adk.Service]. A session that exists gives an error that matches
// [fs.ErrExist].
func (s *service) Create(ctx context.Context, req *adk.CreateRequest) (*adk.CreateResponse, error) {
	id := cmp.Or(req.SessionID, uuid.NewString())
	n, err := s.name(req.AppName, req.UserID, id)
	if err != nil {
		return nil, failed("create", err)
	}
	delta, err := split(req.State)
	if err != nil {
		return nil, failed("create", err)
	}
	_, err = n.user.Get(ctx, n.ref)
	switch {
	case err == nil:
		err = fmt.Errorf("session %q of user %q: %w", id, req.UserID, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		err = s.share(ctx, n, "", delta)
	}
	if err != nil {
		return nil, failed("create", err)
	}
	kept, err := n.user.Create(ctx, session.Key{Agent: req.AppName, Channel: channel, Peer: id},
		&session.CreateOptions{ID: n.ref.ID, Values: delta.session})
	if err != nil {
		return nil, failed("create", err)
	}
	h, err := s.handle(ctx, n, kept, 0)
	return &adk.CreateResponse{Session: h}, failed("create", err)
}

// Get implements [adk.Service]. A missing session gives an error that matches
// [fs.ErrNotExist].
func (s *service) Get(ctx context.Context, req *adk.GetRequest) (*adk.GetResponse, error) {
	n, err := s.name(req.AppName, req.UserID, req.SessionID)
	if err != nil {
		return nil, failed("get", err)
	}
	kept, err := n.user.Get(ctx, n.ref)
	if err != nil {
		return nil, failed("get", err)
	}
	h, err := s.handle(ctx, n, kept, req.NumRecentEvents)
	if err != nil {
		return nil, failed("get", err)
	}
	if !req.After.IsZero() {
		h.events = slices.DeleteFunc(h.events, func(e *adk.Event) bool { return e.Timestamp.Before(req.After) })
	}
	return &adk.GetResponse{Session: h}, nil
}

// List implements [adk.Service]. It lists the sessions of all users if the request names
// none. The sessions have their state and no events.
func (s *service) List(ctx context.Context, req *adk.ListRequest) (*adk.ListResponse, error) {
	if req.AppName == "" {
		return nil, failed("list", errors.New("the name of the app is missing"))
	}
	infos, err := s.store.List(ctx, &session.ListOptions{
		Key: session.Key{Agent: req.AppName, Channel: channel}, Owner: req.UserID,
	})
	if err != nil {
		return nil, failed("list", err)
	}
	shared := map[string]map[string]any{} // by user; the app's as that of the user ""
	list := &adk.ListResponse{Sessions: []adk.Session{}}
	for _, info := range infos {
		key, err := session.ParseKey(info.Key)
		if err != nil {
			continue // of another program
		}
		h := &handle{name: name{app: req.AppName, userID: info.Owner, id: key.Peer, ref: info.Ref}, state: map[string]any{}, updated: info.UpdatedAt}
		for _, user := range []string{"", info.Owner} {
			if shared[user] == nil {
				if shared[user], err = s.shared(ctx, req.AppName, user); err != nil {
					return nil, failed("list", err)
				}
			}
			maps.Copy(h.state, shared[user])
		}
		own, err := listed(ctx, s.store, info)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, failed("list", err)
		}
		maps.Copy(h.state, own)
		list.Sessions = append(list.Sessions, h)
	}
	return list, nil
}

// Delete implements [adk.Service]. A missing session is not an error. The state of the user
// and of the app stays.
func (s *service) Delete(ctx context.Context, req *adk.DeleteRequest) error {
	n, err := s.name(req.AppName, req.UserID, req.SessionID)
	if err == nil {
		err = n.user.Delete(ctx, n.ref)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return failed("delete", err)
}

// AppendEvent implements [adk.Service]. It accepts any Session with the names of a stored
// one, ignores a partial event, and leaves the event as it is.
func (s *service) AppendEvent(ctx context.Context, to adk.Session, event *adk.Event) error {
	if to == nil || event == nil {
		return failed("append event", errors.New("the session or the event is nil"))
	}
	if event.Partial {
		return nil
	}
	done, err := s.append(ctx, to, event)
	if h, ok := to.(*handle); ok && err == nil {
		h.add(event, done.Repeated)
	}
	return failed("append event", err)
}

func (s *service) append(ctx context.Context, to adk.Session, event *adk.Event) (done session.Appended, err error) {
	n, err := s.name(to.AppName(), to.UserID(), to.ID())
	if err != nil {
		return done, err
	}
	delta, err := split(event.Actions.StateDelta)
	if err != nil {
		return done, err
	}
	var kept *session.Session
	if h, ok := to.(*handle); ok && h.service == s {
		kept = h.kept
	}
	if kept == nil || delta.isShared() { // shared state needs a session that exists
		if kept, err = n.user.Get(ctx, n.ref); err != nil {
			return done, err
		}
	}
	item, err := itemOf(event)
	if err != nil {
		return done, err
	}
	if err := s.share(ctx, n, event.ID, delta); err != nil {
		return done, err
	}
	return kept.AppendIf(ctx, session.Cond{Idem: event.ID}, append([]transcript.Item{item}, values(delta.session)...)...)
}

// A name is the place of a session.
type name struct {
	app, userID, id string
	user            *session.Store // the scope of the user
	ref             session.Ref
}

func (s *service) name(app, user, id string) (n name, err error) {
	if app == "" || user == "" || id == "" {
		return n, fmt.Errorf("app %q, user %q, session %q: one of the names is missing", app, user, id)
	}
	n = name{app: app, userID: user, id: id}
	n.ref = session.Ref{Agent: app, ID: session.ForeignID(fmt.Sprintf("%d:%s%s", len(user), user, id))}
	n.user, err = s.store.Scope(user)
	return n, err
}

// handle returns a session with its last n events, or with all if n is 0.
func (s *service) handle(ctx context.Context, n name, kept *session.Session, recent int) (*handle, error) {
	h := &handle{name: n, service: s, kept: kept}
	info, err := kept.Info(ctx)
	if err != nil {
		return nil, err
	}
	if h.events, err = eventsOf(ctx, kept, recent); err != nil {
		return nil, err
	}
	if h.updated = info.UpdatedAt; len(h.events) > 0 {
		h.updated = h.events[len(h.events)-1].Timestamp
	}
	if h.state, err = stateOf(ctx, kept); err != nil {
		return nil, err
	}
	for _, user := range []string{"", n.userID} {
		shared, err := s.shared(ctx, n.app, user)
		if err != nil {
			return nil, err
		}
		maps.Copy(h.state, shared)
	}
	return h, nil
}

func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("adkstore: %s: %w", op, err)
}

// stateKey is the key of the session that holds the state of an app, or in the scope of a
// user the user's.
func stateKey(app string) session.Key {
	return session.Key{Agent: app, Channel: stateChannel, Peer: "state"}
}

// A delta is a change of state, in JSON, by the session that holds it.
type delta struct{ session, user, app map[string]json.RawMessage }

func (d delta) isShared() bool { return len(d.user)+len(d.app) > 0 }

// split returns a change of state without temporary names.
func split(state map[string]any) (d delta, err error) {
	d = delta{map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}}
	for name, value := range state {
		to := d.session
		switch {
		case strings.HasPrefix(name, adk.KeyPrefixTemp):
			continue
		case strings.HasPrefix(name, adk.KeyPrefixUser):
			to = d.user
		case strings.HasPrefix(name, adk.KeyPrefixApp):
			to = d.app
		}
		if to[prefix+name], err = json.Marshal(value); err != nil {
			return d, fmt.Errorf("state %q: %w", name, err)
		}
	}
	return d, nil
}

// prefix begins the names of values that are state.
const prefix = "adk:"

// values returns the items that set values, in the order of their names.
func values(set map[string]json.RawMessage) (items []transcript.Item) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		items = append(items, transcript.Value{Name: name, Value: set[name], Listed: true})
	}
	return items
}

// share stores the shared part of a change, once for an event with an ID.
func (s *service) share(ctx context.Context, n name, eventID string, d delta) error {
	for _, part := range []struct {
		store *session.Store
		set   map[string]json.RawMessage
	}{{s.store, d.app}, {n.user, d.user}} {
		if len(part.set) == 0 {
			continue
		}
		kept, err := part.store.Load(ctx, stateKey(n.app))
		if err != nil {
			return err
		}
		var cond session.Cond
		if eventID != "" {
			cond.Idem = n.ref.ID + " " + eventID
		}
		if _, err := kept.AppendIf(ctx, cond, values(part.set)...); err != nil {
			return err
		}
	}
	return nil
}

// shared returns the state of an app, or of a user of the app.
func (s *service) shared(ctx context.Context, app, user string) (map[string]any, error) {
	infos, err := s.store.List(ctx, &session.ListOptions{Key: stateKey(app), Current: true, Owner: user})
	if err != nil || len(infos) == 0 {
		return map[string]any{}, err
	}
	return listed(ctx, s.store, infos[0])
}

// listed returns the state in the row of a session. If the row lacks a part of it, listed
// reads the session.
func listed(ctx context.Context, store *session.Store, info session.Info) (map[string]any, error) {
	if info.Unlisted > 0 {
		kept, err := store.Get(ctx, info.Ref)
		if err != nil {
			return nil, err
		}
		return stateOf(ctx, kept)
	}
	state := map[string]any{}
	for name, value := range info.Values {
		if err := decode(state, name, value); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// stateOf reads the state in a session.
func stateOf(ctx context.Context, kept *session.Session) (state map[string]any, err error) {
	state = map[string]any{}
	err = kept.View(ctx, func(v *session.View) error {
		for _, value := range v.Fold().Standing().Values {
			if err := decode(state, value.Name, value.Value); err != nil {
				return err
			}
		}
		return nil
	})
	return state, err
}

// decode adds a value to a state, if it is one of a state.
func decode(state map[string]any, name string, data json.RawMessage) error {
	name, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return nil
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	state[name] = value
	return nil
}
