package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

// written appends JSON of this package's own.
type written func(dst []byte) []byte

// bytes returns what has been written.
func (w written) bytes() json.RawMessage { return w(nil) }

// opt is a string that is left out if it is empty.
type opt string

// object returns an object of names and their values in turn. JSON that did not come
// from here is written by the rules of [jsontext.AppendValue], and left out if there
// is none. Members without a name are several.
func object(all ...any) written {
	return func(dst []byte) []byte {
		o := jsontext.AppendObject(dst)
		for i := 0; i < len(all); i += 2 {
			name, _ := all[i].(string)
			add(&o, name, all[i+1])
		}
		return o.End()
	}
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
	case map[string]json.RawMessage:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			o.Value(name, v[name])
		}
	case members:
		for _, m := range v {
			o.Value(m.name, m.value)
		}
	case written:
		if v != nil {
			o.Func(name, v)
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

func (ms members) object() json.RawMessage { return object("", ms).bytes() }

// list returns a list of what element makes of all.
func list[T any](all []T, element func(T) written) written {
	return func(dst []byte) []byte {
		dst = append(dst, '[')
		for i, v := range all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = element(v)(dst)
		}
		return append(dst, ']')
	}
}

// optList returns a list that is left out if it is empty.
func optList[T any](all []T, element func(T) written) written {
	if len(all) == 0 {
		return nil
	}
	return list(all, element)
}

// value returns a value as it is, but on one line.
func value(raw json.RawMessage) written {
	return func(dst []byte) []byte { return jsontext.AppendValue(dst, raw) }
}

// as is for a list of what has been written.
func as(w written) written { return w }

// without returns the members of an object that are not among names.
func without(obj []byte, names ...string) members {
	return slices.DeleteFunc(membersOf(obj), func(m member) bool { return slices.Contains(names, m.name) })
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
