package adkstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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

// channel is the channel in the keys of sessions.
const channel = "adk"

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
	ref := session.Ref{Agent: app, ID: session.ForeignID(fmt.Sprintf("%d:%s%s", len(user), user, id))}
	scope, err := s.store.Scope(user)
	return name{app, user, id, scope, ref}, err
}

// Create implements [adk.Service]. A session that exists gives an error that matches
// [fs.ErrExist].
func (s *service) Create(ctx context.Context, req *adk.CreateRequest) (_ *adk.CreateResponse, err error) {
	defer failed("create", &err)
	n, err := s.name(req.AppName, req.UserID, cmp.Or(req.SessionID, uuid.NewString()))
	if err != nil {
		return nil, err
	}
	parts, err := split(req.State)
	if err != nil {
		return nil, err
	}
	if _, err = n.user.Get(ctx, n.ref); err == nil {
		return nil, fmt.Errorf("session %q of user %q: %w", n.id, n.userID, fs.ErrExist)
	}
	if err = s.share(ctx, n, "", nil, parts); err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{channel: json.RawMessage(`true`)} // so that a list brings the row up to date
	for _, item := range parts[""] {
		v, _ := item.(transcript.Value)
		values[v.Name] = v.Value
	}
	kept, err := n.user.Create(ctx, session.Key{Agent: n.app, Channel: channel, Peer: n.id}, &session.CreateOptions{ID: n.ref.ID, Values: values})
	if err != nil {
		return nil, err
	}
	h, err := s.read(ctx, n, kept, 0)
	return &adk.CreateResponse{Session: h}, err
}

// Get implements [adk.Service]. A missing session gives an error that matches
// [fs.ErrNotExist].
func (s *service) Get(ctx context.Context, req *adk.GetRequest) (_ *adk.GetResponse, err error) {
	defer failed("get", &err)
	n, err := s.name(req.AppName, req.UserID, req.SessionID)
	if err != nil {
		return nil, err
	}
	kept, err := n.user.Get(ctx, n.ref)
	if err != nil {
		return nil, err
	}
	h, err := s.read(ctx, n, kept, req.NumRecentEvents)
	if err != nil {
		return nil, err
	}
	h.events = slices.DeleteFunc(h.events, func(e *adk.Event) bool { return !req.After.IsZero() && e.Timestamp.Before(req.After) })
	return &adk.GetResponse{Session: h}, nil
}

// read returns a session with its last events, or with all if recent is 0.
func (s *service) read(ctx context.Context, n name, kept *session.Session, recent int) (*handle, error) {
	info, err := kept.Info(ctx)
	if err != nil {
		return nil, err
	}
	h := &handle{name: n, service: s, kept: kept, updated: info.UpdatedAt}
	if h.events, err = eventsOf(ctx, kept, recent); err != nil {
		return nil, err
	}
	if len(h.events) > 0 {
		h.updated = h.events[len(h.events)-1].Timestamp
	}
	h.state, err = s.state(ctx, info, map[string]map[string]any{})
	return h, err
}

// List implements [adk.Service]. It lists the sessions of all users if the request names
// none. Their state is complete, and their events are left out.
func (s *service) List(ctx context.Context, req *adk.ListRequest) (_ *adk.ListResponse, err error) {
	defer failed("list", &err)
	if req.AppName == "" {
		return nil, errors.New("the name of the app is missing")
	}
	infos, err := s.store.List(ctx, &session.ListOptions{Key: session.Key{Agent: req.AppName, Channel: channel}, Owner: req.UserID})
	if err != nil {
		return nil, err
	}
	list, shared := []adk.Session{}, map[string]map[string]any{}
	for _, info := range infos {
		key, _ := session.ParseKey(info.Key) // List has parsed it
		h := &handle{name: name{app: req.AppName, userID: info.Owner, id: key.Peer}, updated: info.UpdatedAt}
		switch h.state, err = s.state(ctx, info, shared); {
		case err == nil:
			list = append(list, h)
		case !errors.Is(err, fs.ErrNotExist): // else it was deleted since
			return nil, err
		}
	}
	return &adk.ListResponse{Sessions: list}, nil
}

// Delete implements [adk.Service]. A missing session is not an error. The state of the user
// and of the app stays.
func (s *service) Delete(ctx context.Context, req *adk.DeleteRequest) (err error) {
	defer failed("delete", &err)
	n, err := s.name(req.AppName, req.UserID, req.SessionID)
	if err == nil {
		err = n.user.Delete(ctx, n.ref)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// AppendEvent implements [adk.Service]. It accepts any Session with the names of a stored
// one, ignores a partial event, and leaves the event as it is.
func (s *service) AppendEvent(ctx context.Context, to adk.Session, event *adk.Event) (err error) {
	defer failed("append event", &err)
	if to == nil || event == nil {
		return errors.New("the session or the event is nil")
	}
	if event.Partial {
		return nil
	}
	n, err := s.name(to.AppName(), to.UserID(), to.ID())
	if err != nil {
		return err
	}
	parts, err := split(event.Actions.StateDelta)
	if err != nil {
		return err
	}
	item, err := itemOf(event)
	if err != nil {
		return err
	}
	h, ours := to.(*handle)
	shares := len(parts[adk.KeyPrefixUser])+len(parts[adk.KeyPrefixApp]) > 0
	var kept *session.Session
	if ours && h.service == s && !shares { // the append finds a missing session
		kept = h.kept
	} else if kept, err = n.user.Get(ctx, n.ref); err != nil {
		return err
	}
	if shares {
		if err := s.share(ctx, n, event.ID, kept, parts); err != nil {
			return err
		}
	}
	done, err := kept.AppendIf(ctx, session.Cond{Idem: event.ID}, append([]transcript.Item{item}, parts[""]...)...)
	if err == nil && ours {
		h.add(event, done.Repeated)
	}
	return err
}

// failed adds the operation to an error.
func failed(op string, err *error) {
	if *err != nil {
		*err = fmt.Errorf("adkstore: %s: %w", op, *err)
	}
}
