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

// request writes the body of a request: names and values in turn, as in [object], but
// for those that params have. The messages are the last, so that a longer conversation
// only adds bytes.
func (r *rendering) request(params map[string]json.RawMessage, members ...any) ([]byte, rebuild.Report, error) {
	kept := make([]any, 0, len(members))
	for i := 0; i < len(members); i += 2 {
		name, _ := members[i].(string)
		if _, given := params[name]; !given || name == "" {
			kept = append(kept, name, members[i+1])
		}
	}
	body := object(kept...).bytes()
	if jsontext.MendSurrogates(body) {
		r.note(rebuild.HalfSurrogate, "", "in the input of a call or in what was kept for the API")
	}
	return body, r.report, nil
}

// joined returns a member that is made of that of params and of others, nil if both are
// empty, and the rest of params. It is an error if that of params is no object or has
// one of the others too.
func joined(params map[string]json.RawMessage, name string, others ...member) (value json.RawMessage, rest map[string]json.RawMessage, err error) {
	value, given := params[name]
	if value = jsontext.Trim(value); given && !jsontext.IsObject(value) {
		return nil, nil, fmt.Errorf("wire: params: %q is not a JSON object: %q", name, excerpt(value))
	}
	all := membersOf(value)
	for _, other := range others {
		if jsontext.IsNull(other.value) {
			continue
		}
		if all.has(other.name) {
			return nil, nil, fmt.Errorf("wire: params: %s: %q is written from the request", name, other.name)
		}
		all.set(other.name, other.value)
	}
	rest = maps.Clone(params)
	delete(rest, name)
	if len(all) == 0 {
		return nil, rest, nil
	}
	return all.object(), rest, nil
}

// number returns a number that is left out if it is zero.
func number(n int) json.RawMessage {
	if n == 0 {
		return nil
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// when returns JSON that is left out if something is not so.
func when(so bool, text string) json.RawMessage {
	if !so {
		return nil
	}
	return json.RawMessage(text)
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
