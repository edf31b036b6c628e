package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
)

// APIError is a provider's refusal.
type APIError struct {
	Status    int    // of HTTP; 0 if it came inside a stream or is not known
	Type      string // in the provider's words, "overloaded_error" or "UNAVAILABLE" for example
	Code      string // OpenAI's further code, "context_length_exceeded" for example
	Param     string // OpenAI's place in the request, "messages[3].content[1].image_url" for example
	Message   string
	RequestID string
}

// NewAPIError reads the body of any provider's answer whose HTTP status is not
// 200. Bedrock names the type in the header X-Amzn-Errortype, not in the body.
// The body's status, if any, replaces a status of 0. If the body is not the
// provider's JSON, but a proxy's page for example, Message holds its beginning.
func NewAPIError(status int, body []byte) *APIError {
	e := &APIError{Status: status}
	body = jsontext.Trim(body)
	if !jsontext.Valid(body) || !jsontext.IsObject(body) {
		e.Message = js.Excerpt(body)
		return e
	}
	e.RequestID = js.String(body, "request_id")
	detail, _ := jsontext.Member(body, "error")
	switch {
	case jsontext.IsObject(detail):
		e.Type = cmp.Or(js.String(detail, "type"), js.String(detail, "status")) // the latter is Google's
		e.Code, e.Param, e.Message = js.String(detail, "code"), js.String(detail, "param"), js.String(detail, "message")
		code, _ := jsontext.Member(detail, "code")
		if n, ok := jsontext.Int(code); ok && status == 0 && n >= 400 && n < 600 {
			e.Status = int(n)
		}
	case jsontext.IsString(detail):
		e.Message, _ = jsontext.String(detail)
	default:
		e.Code, e.Message = js.String(body, "code"), js.String(body, "message")
	}
	if e.Message == "" {
		e.Message = js.Excerpt(body)
	}
	return e
}

// Error returns the status, the type, the code and the message.
func (e *APIError) Error() string {
	status, text := "", e.Message
	if e.Status != 0 {
		status = "status " + strconv.Itoa(e.Status)
	}
	said := slices.DeleteFunc([]string{status, e.Type, e.Code}, func(s string) bool { return s == "" })
	if len(said) > 0 {
		text = strings.Join(said, " ") + ": " + text
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return "wire: " + text
}
