package openviking

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

// sessionInfo describes a session in answers.
type sessionInfo struct {
	ID           string `json:"session_id"`
	User         string `json:"user,omitempty"`
	MessageCount *int   `json:"message_count,omitempty"`
	URI          string `json:"uri,omitempty"`
}

type surface struct {
	agent  string
	owner  string // of administrators without an owner
	counts counts
}

// An answer is the common form of OpenViking's answers.
type answer[T any] struct {
	Status string  `json:"status"`
	Result T       `json:"result"`
	Time   float64 `json:"time"`
}

// on returns the route with f as its Do. Its input is the body, or the parameters of a GET
// or DELETE.
func on[In, Out any](r serve.Route, f func(*serve.Request, In) (Out, error)) serve.Route {
	r.In = *new(In)
	if r.Out == nil {
		r.Out = answer[Out]{}
	}
	r.Do = func(q *serve.Request) error {
		in, err := read[In](q)
		if err != nil {
			return err
		}
		out, err := f(q, in)
		if err == nil {
			q.JSON(http.StatusOK, answer[Out]{"ok", out, time.Since(q.Began).Seconds()})
		}
		return err
	}
	return r
}

// onSession is like on for a route whose path names a session.
func onSession[In, Out any](sf *surface, r serve.Route, f func(*serve.Request, *session.Session, In) (Out, error)) serve.Route {
	return on(r, func(q *serve.Request, in In) (out Out, err error) {
		s, err := q.Session(sf.agent, q.PathValue("id"))
		if err != nil {
			return out, err
		}
		return f(q, s, in)
	})
}

// none is an input without members.
type none struct{}

// read returns the input of a request. The tags of a number hold its default and its least
// value; true and false may have any case, as Python writes them.
func read[In any](q *serve.Request) (in In, err error) {
	if q.Method != http.MethodGet && q.Method != http.MethodDelete {
		return in, q.Decode(&in)
	}
	for f, v := range reflect.ValueOf(&in).Elem().Fields() {
		name := f.Tag.Get("json")
		text := cmp.Or(q.URL.Query().Get(name), f.Tag.Get("default"))
		switch {
		case text == "":
		case f.Type.Kind() == reflect.Bool:
			value, err := strconv.ParseBool(strings.ToLower(text))
			if err != nil {
				return in, serve.Invalid("the parameter " + name + " is neither true nor false")
			}
			v.SetBool(value)
		case f.Type.Kind() == reflect.Int:
			n, err := strconv.Atoi(text)
			least, _ := strconv.Atoi(f.Tag.Get("least"))
			if err != nil || n < least {
				return in, serve.Invalid(fmt.Sprintf("the parameter %s is not a number of at least %d", name, least))
			}
			v.SetInt(int64(n))
		default:
			v.SetString(text)
		}
	}
	return in, nil
}

func fail(q *serve.Request, p *serve.Problem) {
	type failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	q.JSON(p.Status, struct {
		Status string  `json:"status"`
		Error  failure `json:"error"`
		Time   float64 `json:"time"`
	}{"error", failure{p.Code, p.Error()}, time.Since(q.Began).Seconds()})
}

// user returns the owner of the principal's new sessions.
func (sf *surface) user(q *serve.Request) string { return cmp.Or(q.Principal.Owner, sf.owner) }

// create makes a session. Its owner is the user in the answer.
func (sf *surface) create(q *serve.Request, id string) (*session.Session, error) {
	q.Principal.Owner = sf.user(q)
	return q.Create(sf.agent, id)
}

// findOrCreate is [serve.Request.FindOrCreate] for the user in the answer.
func (sf *surface) findOrCreate(q *serve.Request) (*session.Session, error) {
	q.Principal.Owner = sf.user(q)
	return q.FindOrCreate(sf.agent, q.PathValue("id"))
}

// absent returns the problem of a route or an option without a counterpart here.
func absent(detail string) error {
	return &serve.Problem{Status: http.StatusNotImplemented, Code: "UNIMPLEMENTED", Title: "this server does not offer it", Detail: detail}
}
