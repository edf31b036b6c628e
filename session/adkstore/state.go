package adkstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	adk "google.golang.org/adk/v2/session"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// prefix begins the names of values that are state.
const prefix = "adk:"

// stateKey is the key of the session that holds the state of an app, or the user's in the
// scope of a user.
func stateKey(app string) session.Key {
	return session.Key{Agent: app, Channel: "adk-state", Peer: "state"}
}

// A change of state is a set of values for each session that holds a part of it.
type change struct{ own, user, app map[string]json.RawMessage }

// split returns a change of state without temporary names.
func split(state map[string]any) (c change, err error) {
	c = change{map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}}
	for name, value := range state {
		to := c.own
		switch {
		case strings.HasPrefix(name, adk.KeyPrefixTemp):
			continue
		case strings.HasPrefix(name, adk.KeyPrefixUser):
			to = c.user
		case strings.HasPrefix(name, adk.KeyPrefixApp):
			to = c.app
		}
		if to[prefix+name], err = json.Marshal(value); err != nil {
			return c, fmt.Errorf("state %q: %w", name, err)
		}
	}
	return c, nil
}

// values returns the items that set values, in the order of their names.
func values(set map[string]json.RawMessage) (items []transcript.Item) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		items = append(items, transcript.Value{Name: name, Value: set[name], Listed: true})
	}
	return items
}

// share stores the shared part of a change, once for an event with an ID.
func (s *service) share(ctx context.Context, n name, eventID string, c change) error {
	var cond session.Cond
	if eventID != "" {
		cond.Idem = n.ref.ID + " " + eventID
	}
	for store, set := range map[*session.Store]map[string]json.RawMessage{s.store: c.app, n.user: c.user} {
		if len(set) == 0 {
			continue
		}
		kept, err := store.Load(ctx, stateKey(n.app))
		if err == nil {
			_, err = kept.AppendIf(ctx, cond, values(set)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// state returns the state of a session with the shared state. Shared caches the shared state
// by owner.
func (s *service) state(ctx context.Context, info session.Info, shared map[string]map[string]any) (map[string]any, error) {
	state := map[string]any{}
	for _, owner := range []string{"", info.Owner} {
		if shared[owner] == nil {
			infos, err := s.store.List(ctx, &session.ListOptions{Key: stateKey(info.Agent), Current: true, Owner: owner})
			if err != nil {
				return nil, err
			}
			shared[owner] = map[string]any{}
			for _, info := range infos { // at most one
				if err := s.add(ctx, shared[owner], info); err != nil {
					return nil, err
				}
			}
		}
		maps.Copy(state, shared[owner])
	}
	return state, s.add(ctx, state, info)
}

// add adds the state that a session holds. It reads the session only if the row lacks a
// part of it.
func (s *service) add(ctx context.Context, state map[string]any, info session.Info) error {
	values := info.Values
	if info.Unlisted > 0 {
		kept, err := s.store.Get(ctx, info.Ref)
		if err != nil {
			return err
		}
		values = map[string]json.RawMessage{}
		err = kept.View(ctx, func(v *session.View) error {
			for _, value := range v.Fold().Standing().Values {
				values[value.Name] = value.Value
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for name, data := range values {
		if name, ok := strings.CutPrefix(name, prefix); ok {
			var value any
			if err := json.Unmarshal(data, &value); err != nil {
				return fmt.Errorf("state %q: %w", name, err)
			}
			state[name] = value
		}
	}
	return nil
}
