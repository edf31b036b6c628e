package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
)

// A Problem is the reason why a request failed, in the form of RFC 9457. It contains no
// path, no key and no text of a conversation.
type Problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"` // stable
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"` // of an invalid request
	// Pointer is the invalid member of the body, or the invalid parameter, in the form of
	// RFC 6901: #/title.
	Pointer string `json:"pointer,omitempty"`
}

// Error returns the title, the detail and the pointer, without those that are empty.
func (p *Problem) Error() string {
	texts := []string{p.Title, p.Detail, p.Pointer}
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ": ")
}

// Invalid returns a 400 problem with a detail.
func Invalid(detail string) error {
	p := *errInvalid
	p.Detail = detail
	return &p
}

var errNotJSON = Invalid("the body is not JSON of the form that the route takes")

// All problems, with OpenViking's codes where it has one.
var (
	errInvalid     = &Problem{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Title: "the request is invalid"}
	errKey         = &Problem{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Title: "the request is invalid", Detail: session.ErrKey.Error(), Pointer: "#/key"}
	errWho         = &Problem{Status: http.StatusUnauthorized, Code: "UNAUTHENTICATED", Title: "the key is missing or unknown"}
	errForbidden   = &Problem{Status: http.StatusForbidden, Code: "PERMISSION_DENIED", Title: "the sender may not make this request"}
	errNotFound    = &Problem{Status: http.StatusNotFound, Code: "NOT_FOUND", Title: "there is no such session, or entry"}
	errNoRoute     = &Problem{Status: http.StatusNotFound, Code: "NO_ROUTE", Title: "no route has this path"}
	errMethod      = &Problem{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Title: "the path does not take this method: see the header Allow"}
	errCut         = &Problem{Status: http.StatusRequestTimeout, Code: "REQUEST_TIMEOUT", Title: "the body did not arrive in time"}
	errExists      = &Problem{Status: http.StatusConflict, Code: "ALREADY_EXISTS", Title: "the ID is in use"}
	errChanged     = &Problem{Status: http.StatusConflict, Code: "ABORTED", Title: "the session has changed since it was read: read it again"}
	errBusy        = &Problem{Status: http.StatusConflict, Code: "ABORTED", Title: "the session is locked, for example by a running turn: try again later"}
	errReused      = &Problem{Status: http.StatusConflict, Code: "IDEMPOTENCY_KEY_REUSED", Title: "the idempotency key was used for another request"}
	errArchived    = &Problem{Status: http.StatusPreconditionFailed, Code: "FAILED_PRECONDITION", Title: "the session is archived, or the store is read-only"}
	errTooLarge    = &Problem{Status: http.StatusRequestEntityTooLarge, Code: "PAYLOAD_TOO_LARGE", Title: "the request is larger than the server takes"}
	errMedia       = &Problem{Status: http.StatusUnsupportedMediaType, Code: "UNSUPPORTED_MEDIA_TYPE", Title: "the body must be application/json"}
	errLines       = &Problem{Status: http.StatusUnsupportedMediaType, Code: "UNSUPPORTED_MEDIA_TYPE", Title: "the body must be " + mediaLines}
	errDiverged    = &Problem{Status: http.StatusConflict, Code: "DIVERGED", Title: exchange.ErrDiverged.Error()}
	errForce       = &Problem{Status: http.StatusPreconditionFailed, Code: "FORCE_NEEDED", Title: retain.ErrForce.Error()}
	errQuota       = &Problem{Status: http.StatusTooManyRequests, Code: "RESOURCE_EXHAUSTED", Title: "the request exceeds a quota of the sender"}
	errFull        = &Problem{Status: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Title: "the server is busy or stopping: try again later"}
	errSlow        = &Problem{Status: http.StatusGatewayTimeout, Code: "DEADLINE_EXCEEDED", Title: "the request took too long"}
	errNoResponder = &Problem{Status: http.StatusNotImplemented, Code: "UNIMPLEMENTED", Title: "this server gives no answers"}
	errUnsupported = &Problem{Status: http.StatusNotImplemented, Code: "UNIMPLEMENTED", Title: "the store cannot do this"}
	errInternal    = &Problem{Status: http.StatusInternalServerError, Code: "INTERNAL", Title: "the request failed: see the log of the server"}
)

var errClosed = errors.New("the server is being stopped: try again later")

// problems maps errors to problems; the first match counts.
var problems = []struct {
	err error
	is  *Problem
}{
	{fs.ErrNotExist, errNotFound},
	{session.ErrNoEntry, errNotFound},
	{fs.ErrExist, errExists},
	{session.ErrIdemMismatch, errReused},
	{session.ErrBusy, errBusy}, // before ErrConflict: an error may match both
	{session.ErrConflict, errChanged},
	{session.ErrReplaced, errChanged},
	{session.ErrArchived, errArchived},
	{session.ErrReadOnly, errArchived},
	{session.ErrKey, errKey},
	{search.ErrQuery, errInvalid},
	{retain.ErrForce, errForce},
	{errors.ErrUnsupported, errUnsupported},
	{fs.ErrInvalid, errInvalid},
	{session.ErrClosed, errFull},
	{errClosed, errFull},
	{context.DeadlineExceeded, errSlow},
}

func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*session.InputError](err); ok {
		p := *errInvalid
		if p.Detail = e.Reason; e.Member != "" {
			p.Pointer = "#/" + e.Member
		}
		return &p
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge
	}
	if _, ok := errors.AsType[*driver.NameError](err); ok {
		return errNotFound // no session can have such a name
	}
	for _, p := range problems {
		switch {
		case !errors.Is(err, p.err):
		case p.is == errInvalid:
			return problemOf(Invalid(discreet(err)))
		default:
			return p.is
		}
	}
	return errInternal
}

// misfit returns a problem with the pointer of the member that has the wrong type by an
// error of package json, if the error names one.
func misfit(problem, err error) *Problem {
	p := *problemOf(problem)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		for name := range strings.SplitSeq(wrong.Field, ".") {
			if name != "" && name[0] >= 'a' { // else an embedded struct
				p.Pointer = cmp.Or(p.Pointer, "#") + "/" + name
			}
		}
	}
	return &p
}

// discreet returns the text of an error without paths of files and keys of sessions.
func discreet(err error) string {
	text := err.Error()
	hide := func(names ...string) {
		for _, name := range names {
			if name != "" {
				text = strings.ReplaceAll(text, name, "...")
			}
		}
	}
	var look func(error)
	look = func(err error) {
		switch e := err.(type) { //nolint:errorlint // each is examined
		case *session.Error:
			hide(e.Path, e.Key)
		case *fs.PathError:
			hide(e.Path)
		case *os.LinkError:
			hide(e.Old, e.New)
		}
		switch e := err.(type) { //nolint:errorlint // both forms
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				look(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				look(inner)
			}
		}
	}
	look(err)
	words := strings.Split(text, " ")
	for i, word := range words { // a path that no error holds in a field
		if name := strings.TrimLeft(word, "('\""); filepath.IsAbs(name) {
			words[i] = "..." + word[len(strings.TrimRight(word, ".,:;)'\"")):]
		}
	}
	return strings.Join(words, " ")
}
