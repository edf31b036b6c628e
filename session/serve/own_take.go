package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
)

// none is an empty request or answer; an empty answer gets the status 204. A function
// that wrote the answer itself returns done.
type (
	none struct{}
	done struct{}
)

// onStore returns the route with f as its Do.
func onStore[In, Out any](r Route, f func(*Request, In) (Out, error)) Route {
	var in In
	var out Out
	r.In, r.Out = in, out
	r.Do = func(q *Request) error {
		var in In
		if err := q.take(&in); err != nil {
			return err
		}
		out, err := f(q, in)
		if err != nil {
			return err
		}
		switch any(out).(type) {
		case done:
		case none:
			q.w.WriteHeader(http.StatusNoContent)
		default:
			q.JSON(http.StatusOK, out)
		}
		return nil
	}
	return r
}

// onSession returns the route with f as its Do. The path of the route names a session.
func onSession[In, Out any](r Route, f func(*Request, *session.Session, In) (Out, error)) Route {
	return onStore(r, func(q *Request, in In) (out Out, err error) {
		s, err := q.Session(q.PathValue("agent"), q.PathValue("id"))
		if err != nil {
			return out, err
		}
		return f(q, s, in)
	})
}

// onRef is like onSession for a session that may be in the trash.
func onRef[Out any](r Route, f func(*Request, session.Ref) (Out, error)) Route {
	return onStore(r, func(q *Request, _ none) (out Out, err error) {
		agent, err := q.agent(q.PathValue("agent"))
		if err != nil {
			return out, err
		}
		return f(q, session.Ref{Agent: agent, ID: q.PathValue("id")})
	})
}

// clamp returns n, or other if n is 0 or less, but at most limit.
func clamp(n, other, limit int) int { return min(or(max(n, 0), other), limit) }

var errParameter = Invalid("a parameter is unknown to the route, or has the wrong type")

// take decodes the input of the store's own routes: the body, or the parameters of a
// GET. It refuses unknown members: a filter with a misspelt name would list all sessions.
func (q *Request) take(v any) (err error) {
	data, wrong := q.data, errNotJSON
	if q.Method == http.MethodGet {
		wrong = errParameter
		if data, err = q.parameters(reflect.TypeOf(v).Elem()); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		return nil
	}
	d := strict(data)
	err = d.Decode(v)
	if _, end := d.Token(); err == nil && errors.Is(end, io.EOF) {
		return nil
	}
	p := misfit(wrong, err)
	if p.Pointer == "" {
		p.Pointer = stranger(data, reflect.TypeOf(v).Elem())
	}
	return p
}

// stranger returns the JSON pointer of a member of data that t lacks or refuses, or "" if it
// finds none.
func stranger(data []byte, t reflect.Type) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: object[name]})
		if err == nil && strict(alone).Decode(reflect.New(t).Interface()) != nil {
			return "#/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		}
	}
	return ""
}

func strict(data []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d
}

// parameters returns the parameters of a request as a JSON object that decodes into t. The
// text of a [session.Ref] is agent/id.
func (q *Request) parameters(t reflect.Type) ([]byte, error) {
	values := q.URL.Query()
	object := map[string]any{}
	for name := range values {
		object[name] = values.Get(name)
	}
	for _, f := range members(t) {
		text, ok := object[f.name].(string)
		switch {
		case !ok:
		case f.Type == reflect.TypeFor[session.Ref]():
			agent, id, _ := strings.Cut(text, "/")
			object[f.name] = session.Ref{Agent: agent, ID: id}
		case (f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Bool) && json.Valid([]byte(text)):
			object[f.name] = json.RawMessage(text)
		}
	}
	return json.Marshal(object)
}

// A member is a field of a struct with its name in JSON.
type member struct {
	reflect.StructField
	name     string
	optional bool
}

func members(t reflect.Type) (all []member) {
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" {
			continue
		}
		all = append(all, member{f, or(name, f.Name), strings.HasPrefix(opts, "omit")})
	}
	return all
}
