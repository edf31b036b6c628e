// Package js writes the JSON of requests and reads the JSON of answers.
package js

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
)

// Written appends JSON that this package writes.
type Written func(dst []byte) []byte

// Bytes returns the written JSON.
func (w Written) Bytes() json.RawMessage { return w(nil) }

// Opt is a string that is left out if it is empty.
type Opt string

// Object returns an object of names and their values in turn. Foreign JSON
// follows the rules of [jsontext.AppendValue], and is left out if empty. A value
// with an empty name is a list of members.
func Object(all ...any) Written {
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
	case Opt:
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
	case Members:
		for _, m := range v {
			o.Value(m.Name, m.Value)
		}
	case Written:
		if v != nil {
			o.Func(name, v)
		}
	}
}

// Text returns an object with a text.
func Text(text string) Written { return Object("text", text) }

// A Member is a member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members are the members of an object; their values may change.
type Members []Member

// MembersOf returns the members of an object.
func MembersOf(obj []byte) (all Members) {
	for name, value := range jsontext.Members(obj) {
		all = append(all, Member{name, value})
	}
	return all
}

// Has reports whether there is a member of that name.
func (ms Members) Has(name string) bool {
	return slices.ContainsFunc(ms, func(m Member) bool { return m.Name == name })
}

// Set replaces a value, or appends it.
func (ms *Members) Set(name string, value json.RawMessage) {
	i := slices.IndexFunc(*ms, func(m Member) bool { return m.Name == name })
	if i < 0 {
		*ms = append(*ms, Member{Name: name})
		i = len(*ms) - 1
	}
	(*ms)[i].Value = value
}

// Object returns the object with these members.
func (ms Members) Object() json.RawMessage { return Object("", ms).Bytes() }

// List returns a list of the results of element.
func List[T any](all []T, element func(T) Written) Written {
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

// OptList returns a list that is left out if it is empty.
func OptList[T any](all []T, element func(T) Written) Written {
	if len(all) == 0 {
		return nil
	}
	return List(all, element)
}

// Value returns a value as it is, but on one line.
func Value(raw json.RawMessage) Written {
	return func(dst []byte) []byte { return jsontext.AppendValue(dst, raw) }
}

// As serves List for written values.
func As(w Written) Written { return w }

// Without returns the members of an object that are not among names.
func Without(obj []byte, names ...string) Members {
	return slices.DeleteFunc(MembersOf(obj), func(m Member) bool { return slices.Contains(names, m.Name) })
}

// HasOnly reports whether a value is an object of these members only, each at
// most once: readers disagree about which of two equal names counts.
func HasOnly(value []byte, names ...string) bool {
	return len(Without(value, names...)) == 0 && HasEachOnce(value)
}

// Get returns the value at a path of members, or nil.
func Get(obj []byte, path ...string) json.RawMessage {
	for _, name := range path {
		obj, _ = jsontext.Member(obj, name)
	}
	return obj
}

// String returns the string at a path, or "".
func String(obj []byte, path ...string) string {
	s, _ := jsontext.String(Get(obj, path...))
	return s
}

// Elements returns copies of the elements of a list.
func Elements(list []byte) (all []json.RawMessage) {
	for e := range jsontext.Elements(slices.Clone(list)) {
		all = append(all, e)
	}
	return all
}

// Number returns a number that is left out if it is zero.
func Number(n int) json.RawMessage {
	if n == 0 {
		return nil
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// When returns JSON that is left out if so is false.
func When(so bool, text string) json.RawMessage {
	if !so {
		return nil
	}
	return json.RawMessage(text)
}

// Excerpt returns the beginning of data for an error message, in valid UTF-8.
func Excerpt(data []byte) string {
	const most = 300
	if len(data) <= most {
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	return strings.ToValidUTF8(string(data[:most]), "\uFFFD") + "..."
}

// HasEachOnce reports whether an object has members, each only once.
func HasEachOnce(obj []byte) bool {
	seen := map[string]bool{}
	for name := range jsontext.Members(obj) {
		if seen[name] {
			return false
		}
		seen[name] = true
	}
	return len(seen) > 0
}
