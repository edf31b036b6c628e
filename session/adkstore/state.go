package adkstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

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

// split returns the values of a change of state by the prefixes of their names, in order.
// Two names that are not UTF-8 could become one in JSON, so it refuses them.
func split(state map[string]any) (parts map[string][]transcript.Item, err error) {
	parts = map[string][]transcript.Item{}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		scope := name[:strings.IndexByte(name, ':')+1]
		if !slices.Contains([]string{adk.KeyPrefixApp, adk.KeyPrefixUser, adk.KeyPrefixTemp}, scope) {
			scope = ""
		}
		data, err := json.Marshal(state[name])
		if !utf8.ValidString(name) {
			err = errors.New("the name is not valid UTF-8")
		}
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", name, err)
		}
		parts[scope] = append(parts[scope], transcript.Value{Name: prefix + name, Value: data, Listed: true})
	}
	return parts, nil
}

// share stores the shared parts of a change, once for an event with an ID. The key of an
// event names its session by the time of creation as well: after a deletion its ID may return.
func (s *service) share(ctx context.Context, n name, eventID string, of *session.Session, parts map[string][]transcript.Item) error {
	var cond session.Cond
	if eventID != "" {
		info, err := of.Info(ctx)
		if err != nil {
			return err
		}
		cond.Idem = fmt.Sprintf("%s %d %s", n.ref.ID, info.CreatedAt.UnixMicro(), eventID)
	}
	for scope, store := range map[string]*session.Store{adk.KeyPrefixApp: s.store, adk.KeyPrefixUser: n.user} {
		if len(parts[scope]) == 0 {
			continue
		}
		kept, err := store.Load(ctx, stateKey(n.app))
		if err == nil {
			err = keep(ctx, kept)
		}
		if err == nil {
			_, err = kept.AppendIf(ctx, cond, parts[scope]...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keep protects a session from retention, which would take it for an old conversation: no
// user message is in it.
func keep(ctx context.Context, kept *session.Session) error {
	info, err := kept.Info(ctx)
	if err != nil || info.Keep {
		return err
	}
	return kept.SetMeta(ctx, transcript.Meta{Keep: new(true)})
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
