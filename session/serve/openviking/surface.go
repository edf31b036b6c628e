package openviking

import (
	"cmp"
	"fmt"
	"net/http"
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

func reply[T any](q *serve.Request, result T) error {
	q.JSON(http.StatusOK, answer[T]{"ok", result, time.Since(q.Began).Seconds()})
	return nil
}

func fail(q *serve.Request, p *serve.Problem) {
	type failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	message := p.Title
	if p.Detail != "" {
		message += ": " + p.Detail
	}
	q.JSON(p.Status, struct {
		Status string  `json:"status"`
		Error  failure `json:"error"`
		Time   float64 `json:"time"`
	}{"error", failure{p.Code, message}, time.Since(q.Began).Seconds()})
}

// user returns the owner of the principal's new sessions.
func (sf *surface) user(q *serve.Request) string { return cmp.Or(q.Principal.Owner, sf.owner) }

// about calls f with the session in the path of a request.
func (sf *surface) about(f func(*serve.Request, *session.Session) error) func(*serve.Request) error {
	return func(q *serve.Request) error {
		s, err := q.Session(sf.agent, q.PathValue("id"))
		if err != nil {
			return err
		}
		return f(q, s)
	}
}

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

// flag returns a parameter that is true or false, in any case as Python writes it.
func flag(q *serve.Request, name string) (bool, error) {
	text := q.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		return false, serve.Invalid("the parameter " + name + " is neither true nor false")
	}
	return value, nil
}

// number returns a parameter that is a number from least, or fallback if it is missing.
func number(q *serve.Request, name string, fallback, least int) (int, error) {
	text := q.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, serve.Invalid(fmt.Sprintf("the parameter %s is not a number of at least %d", name, least))
	}
	return n, nil
}
