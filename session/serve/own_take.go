package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/convolog/convolog/session"
)

// take decodes the query of the store's own routes: the body, or the parameters of
// a GET. Members that the type does not have are refused, as a filter with a
// misspelt name would list everything.
func (q *Request) take(v any) error {
	data := q.data
	if q.Method == http.MethodGet {
		var err error
		if data, err = q.parameters(reflect.TypeOf(v).Elem()); err != nil {
			return errParameter
		}
	}
	if len(data) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		if q.Method == http.MethodGet {
			return errParameter
		}
		return errNotJSON
	}
	return nil
}

var errParameter = Invalid("a parameter is not one that the route takes, or not of its type")

// parameters returns the parameters of a request as a JSON object, for a struct with
// such members. A [session.Ref] is agent/id.
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
		case f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Bool:
			object[f.name] = json.RawMessage(text)
		}
	}
	return json.Marshal(object)
}

// A member is a field of a struct as JSON has it.
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
