package serve

import (
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"
)

var documentRoutes = []Route{{Method: "GET", Path: "/openapi.json", Summary: "Describe these routes.", Out: object{}, Do: (*Request).document}}

// document answers with an OpenAPI 3.1 document of the served routes. The document is
// made from the route table and from the Go types of requests and answers.
func (q *Request) document() error {
	doc := openAPI(q.sv.routes)
	path, _, _ := strings.Cut(q.RequestURI, "?")
	if prefix := strings.TrimSuffix(path, "/openapi.json"); strings.HasPrefix(prefix, "/") {
		doc["servers"] = []object{{"url": prefix}} // the prefix that http.StripPrefix removed
	}
	q.JSON(http.StatusOK, doc)
	return nil
}

// object is a JSON object.
type object = map[string]any

func openAPI(routes []Route) object {
	types := schemas{}
	problem := object{"description": "A problem: RFC 9457, or the error of the surface.", "content": object{"application/problem+json": object{"schema": types.of(reflect.TypeFor[Problem]())}}}
	paths := map[string]object{}
	for _, r := range routes {
		r.Path = strings.TrimSuffix(r.Path, "{$}")
		if paths[r.Path] == nil {
			paths[r.Path] = object{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = types.operation(r)
	}
	schemes := object{"bearer": object{"type": "http", "scheme": "bearer"}, "key": object{"type": "apiKey", "in": "header", "name": "X-API-Key"}}
	return object{
		"openapi": "3.1.0", "info": object{"title": "Convolog", "version": "1"}, "paths": paths,
		"components": object{"schemas": types, "responses": object{"Problem": problem}, "securitySchemes": schemes},
		"security":   []object{{"bearer": []string{}}, {"key": []string{}}},
	}
}

// schemas maps named types to their schemas.
type schemas map[string]any

func (all schemas) operation(r Route) object {
	ref := func(to string) object { return object{"$ref": "#/components/" + to} }
	params := []object{}
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	content := object{}
	for media := range strings.SplitSeq(or(r.Media, "application/json"), ", ") {
		content[media] = object{"schema": object{"type": "string"}}
		if media == "application/json" {
			content[media] = object{"schema": all.of(reflect.TypeOf(r.Out))}
		}
	}
	op := object{"summary": r.Summary, "responses": object{"200": object{"description": "It is done.", "content": content}, "default": ref("responses/Problem")}}
	if _, ok := r.Out.(none); ok {
		op["responses"] = object{"204": object{"description": "It is done."}, "default": ref("responses/Problem")}
	}
	switch in := reflect.TypeOf(r.In); {
	case in == reflect.TypeFor[lines]():
		op["requestBody"] = object{"required": true, "content": object{mediaLines: object{}}}
	case r.Method != http.MethodGet && r.Method != http.MethodDelete:
		if in != reflect.TypeFor[none]() {
			op["requestBody"] = object{"content": object{"application/json": object{"schema": all.of(in)}}}
		}
	case in != nil:
		for _, f := range members(in) {
			schema := all.of(f.Type)
			if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
				schema = object{"type": "string", "description": "agent/id"}
			}
			params = append(params, object{"name": f.name, "in": "query", "schema": schema})
		}
	}
	if r.Public {
		op["security"] = []object{}
	}
	if r.Admin {
		op["description"] = "For administrators."
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	return op
}

// of returns the schema of a type. For a struct with an exported name it is a reference.
func (all schemas) of(t reflect.Type) object {
	switch {
	case t == nil:
		return object{}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return object{}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return all.of(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": all.of(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": all.of(t.Elem())}
	case reflect.Struct:
		return all.structure(t)
	default:
		return object{}
	}
}

func (all schemas) structure(t reflect.Type) object {
	named := t.Name() != "" && t.Name()[0] < 'a'
	if named && all[t.String()] != nil {
		return object{"$ref": "#/components/schemas/" + t.String()}
	}
	schema, properties, required := object{"type": "object"}, object{}, []string{}
	schema["properties"] = properties
	if named {
		all[t.String()] = schema // before its members, one of which may be the same type
	}
	for _, f := range members(t) {
		properties[f.name] = all.of(f.Type)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	if named {
		return object{"$ref": "#/components/schemas/" + t.String()}
	}
	return schema
}
