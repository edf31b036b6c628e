package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// CheckRoles returns an error if a message has an unknown role.
func CheckRoles(messages []transcript.Message) error {
	for i, m := range messages {
		if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant {
			return fmt.Errorf("wire: message %d has role %q, want %q or %q", i, m.Role, transcript.RoleUser, transcript.RoleAssistant)
		}
	}
	return nil
}

// CheckParams returns an error if further members of a request are not JSON, or
// if the format writes one of them itself.
func CheckParams(params map[string]json.RawMessage, written ...string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(written, name) {
			return fmt.Errorf("wire: params: %q is written from the request", name)
		}
		if value := params[name]; !jsontext.Valid(value) {
			return fmt.Errorf("wire: params: %q is not valid JSON: %q", name, js.Excerpt(value))
		}
	}
	return nil
}

// Body writes the body of a request: names and values in turn, as in [js.Object],
// without the names in params. Messages come last, so that a longer conversation only
// adds bytes.
func (r *Rendering) Body(params map[string]json.RawMessage, members ...any) ([]byte, rebuild.Report, error) {
	kept := make([]any, 0, len(members))
	for i := 0; i < len(members); i += 2 {
		name, _ := members[i].(string)
		if _, given := params[name]; !given || name == "" {
			kept = append(kept, name, members[i+1])
		}
	}
	body := js.Object(kept...).Bytes()
	if jsontext.MendSurrogates(body) {
		r.Note("half-surrogate", "", "in the input of a call or in what was kept for the API")
	}
	return body, r.report, nil
}

// Joined adds others to a member of params, and returns it, nil if it is empty, and
// the rest of params. It fails if the value in params is not an object or repeats
// one of the others.
func Joined(params map[string]json.RawMessage, name string, others ...js.Member) (value json.RawMessage, rest map[string]json.RawMessage, err error) {
	value, given := params[name]
	if value = jsontext.Trim(value); given && !jsontext.IsObject(value) {
		return nil, nil, fmt.Errorf("wire: params: %q is not a JSON object: %q", name, js.Excerpt(value))
	}
	all := js.MembersOf(value)
	for _, other := range others {
		if jsontext.IsNull(other.Value) {
			continue
		}
		if all.Has(other.Name) {
			return nil, nil, fmt.Errorf("wire: params: %s: %q is written from the request", name, other.Name)
		}
		all.Set(other.Name, other.Value)
	}
	rest = maps.Clone(params)
	delete(rest, name)
	if len(all) == 0 {
		return nil, rest, nil
	}
	return all.Object(), rest, nil
}

// CheckObject returns an error unless a setting is nil or an object.
func CheckObject(name string, value json.RawMessage) error {
	if !jsontext.IsNull(value) && (!jsontext.Valid(value) || !jsontext.IsObject(value)) {
		return fmt.Errorf("wire: %s %q is not a JSON object", name, js.Excerpt(value))
	}
	return nil
}

// Renamed returns the tools with the names that a target takes.
func (r *Rendering) Renamed(tools []transcript.Tool, name func(string) string) ([]transcript.Tool, error) {
	tools = slices.Clone(tools)
	given := map[string]string{}
	for i, t := range tools {
		renamed := name(t.Name)
		if other, twice := given[renamed]; twice {
			return nil, fmt.Errorf("wire: tools %q and %q are both called %q: rename one", other, t.Name, renamed)
		}
		given[renamed] = t.Name
		if renamed != t.Name {
			r.Note("bad-name", "", "tool "+t.Name+" became "+renamed)
		}
		tools[i].Name = renamed
	}
	return tools, nil
}
