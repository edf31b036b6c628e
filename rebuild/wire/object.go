package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

// written is JSON of this package's own: it goes out as it is.
type written []byte

// opt is a string that is left out if it is empty.
type opt string

// object returns an object of names and their values in turn. JSON that did not come
// from here is written by the rules of [jsontext.AppendValue], and left out if there
// is none.
func object(members ...any) written {
	o := jsontext.AppendObject(nil)
	for i := 0; i < len(members); i += 2 {
		name, _ := members[i].(string)
		add(&o, name, members[i+1])
	}
	return o.End()
}

func add(o *jsontext.Object, name string, value any) {
	switch v := value.(type) {
	case string:
		o.String(name, v)
	case opt:
		o.OptString(name, string(v))
	case int:
		o.Int(name, int64(v))
	case bool:
		o.Bool(name, v)
	case json.RawMessage:
		o.OptValue(name, v)
	case []byte:
		o.OptValue(name, v)
	case map[string]json.RawMessage: // members, not a value
		for _, name := range slices.Sorted(maps.Keys(v)) {
			o.Value(name, v[name])
		}
	case written:
		if v != nil {
			o.Func(name, func(dst []byte) []byte { return append(dst, v...) })
		}
	}
}

// A member is one of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members are those of an object whose values may change.
type members []member

func membersOf(obj []byte) (all members) {
	for name, value := range jsontext.Members(obj) {
		all = append(all, member{name, value})
	}
	return all
}

func (ms members) has(name string) bool {
	return slices.ContainsFunc(ms, func(m member) bool { return m.name == name })
}

// set sets a value in its place, or behind the others.
func (ms *members) set(name string, value json.RawMessage) {
	i := slices.IndexFunc(*ms, func(m member) bool { return m.name == name })
	if i < 0 {
		*ms = append(*ms, member{name: name})
		i = len(*ms) - 1
	}
	(*ms)[i].value = value
}

func (ms members) object() json.RawMessage {
	o := jsontext.AppendObject(nil)
	for _, m := range ms {
		o.Value(m.name, m.value)
	}
	return o.End()
}

// list returns a list of what element makes of all.
func list[T any](all []T, element func(T) written) written {
	dst := written{'['}
	for i, v := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, element(v)...)
	}
	return append(dst, ']')
}

// optList returns a list that is left out if it is empty.
func optList[T any](all []T, element func(T) written) written {
	if len(all) == 0 {
		return nil
	}
	return list(all, element)
}

// value returns a value as it is, but on one line.
func value(raw json.RawMessage) written { return jsontext.AppendValue(nil, raw) }

// as is for a list of what has been written.
func as(w written) written { return w }

// without returns an object of the members that are not among names.
func without(obj []byte, names ...string) written {
	o := jsontext.AppendObject(nil)
	for name, value := range jsontext.Members(obj) {
		if !slices.Contains(names, name) {
			o.Value(name, value)
		}
	}
	return o.End()
}

// get returns the value at a path of members, nil if there is none.
func get(obj []byte, path ...string) json.RawMessage {
	for _, name := range path {
		obj, _ = jsontext.Member(obj, name)
	}
	return obj
}

// stringMember returns the string at such a path, empty if there is none.
func stringMember(obj []byte, path ...string) string {
	s, _ := jsontext.String(get(obj, path...))
	return s
}

// elements returns the elements of a list in an array of their own.
func elements(list []byte) (all []json.RawMessage) {
	for e := range jsontext.Elements(slices.Clone(list)) {
		all = append(all, e)
	}
	return all
}
