package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// checkRoles returns an error if a message has a role that is none.
func checkRoles(messages []transcript.Message) error {
	for i, m := range messages {
		if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant {
			return fmt.Errorf("wire: message %d has role %q, want %q or %q", i, m.Role, transcript.RoleUser, transcript.RoleAssistant)
		}
	}
	return nil
}

// checkParams returns an error if further members of a request are no JSON, or
// if one of them is written from the request.
func checkParams(params map[string]json.RawMessage, written ...string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(written, name) {
			return fmt.Errorf("wire: params: %q is written from the request", name)
		}
		if value := params[name]; !jsontext.Valid(value) {
			return fmt.Errorf("wire: params: %q is not valid JSON: %q", name, excerpt(value))
		}
	}
	return nil
}

// appendParams writes further members of a request, but for those that others are
// added to.
func appendParams(o *jsontext.Object, params map[string]json.RawMessage, joined ...string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(joined, name) {
			o.Value(name, params[name])
		}
	}
}

// joined writes a member that is made of that of params and of others, nothing if
// both are empty. It is an error if that of params is no object or has one of the
// others too.
func joined(o *jsontext.Object, name string, params map[string]json.RawMessage, others ...member) error {
	value, given := params[name]
	if value = jsontext.Trim(value); given && !jsontext.IsObject(value) {
		return fmt.Errorf("wire: params: %q is not a JSON object: %q", name, excerpt(value))
	}
	all := membersOf(value)
	for _, other := range others {
		if jsontext.IsNull(other.value) {
			continue
		}
		if all.has(other.name) {
			return fmt.Errorf("wire: params: %s: %q is written from the request", name, other.name)
		}
		all.set(other.name, other.value)
	}
	if len(all) > 0 {
		o.Value(name, all.object())
	}
	return nil
}

// limit returns the member for an output limit; null if there is none.
func limit(name string, tokens int) member {
	if tokens == 0 {
		return member{name: name}
	}
	return member{name, strconv.AppendInt(nil, int64(tokens), 10)}
}

// checkObject returns an error if a setting that may be nil is no object.
func checkObject(name string, value json.RawMessage) error {
	if !jsontext.IsNull(value) && (!jsontext.Valid(value) || !jsontext.IsObject(value)) {
		return fmt.Errorf("wire: %s %q is not a JSON object", name, excerpt(value))
	}
	return nil
}

// renamed returns the tools with the names that a target takes.
func (r *rendering) renamed(tools []transcript.Tool, name func(string) string) ([]transcript.Tool, error) {
	tools = slices.Clone(tools)
	given := map[string]string{}
	for i, t := range tools {
		renamed := name(t.Name)
		if other, twice := given[renamed]; twice {
			return nil, fmt.Errorf("wire: tools %q and %q are both called %q: rename one", other, t.Name, renamed)
		}
		given[renamed] = t.Name
		if renamed != t.Name {
			r.note(rebuild.BadName, "", "tool "+t.Name+" became "+renamed)
		}
		tools[i].Name = renamed
	}
	return tools, nil
}
