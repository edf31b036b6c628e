package guardtest

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// read reads a request and judges it. What could be read of one that is
// refused is returned too. counting says that it only asks for a count. An error
// means that the client went away while it sent.
func (x *exchange) read(counting bool) (req Request, no *refusal, err error) {
	m := x.m
	req = Request{Header: x.r.Header.Clone()}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.maxBody()))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		no = &refusal{status: http.StatusRequestEntityTooLarge, kind: kindTooLarge, text: textTooLarge, usual: true, outcome: Overflow}
		return req, x.worded(no), nil
	}
	if err != nil {
		return req, nil, err
	}
	req.Body = body
	if req.Request, req.Stream, no = x.api.decode(m, x.r.Header, body, counting); no != nil {
		return req, x.worded(no), nil
	}
	if _, ok := x.api.(anthropic); ok {
		if req.Dropped, no = m.checkBinding(&req.Request); no != nil {
			return req, x.worded(no), nil
		}
	}
	req.Tokens = m.tokens(req.System, req.Tools, req.Messages)
	if !counting {
		no = x.api.judgeSize(m, req)
	}
	return req, x.worded(no), nil
}

// maxBody is the size in bytes that a body may have.
func (x *exchange) maxBody() int64 { return cmp.Or(x.m.MaxBody, x.api.maxBody()) }

// worded returns an error as the provider says it.
func (x *exchange) worded(no *refusal) *refusal {
	if no == nil {
		return nil
	}
	said := x.api.word(*no, x.maxBody())
	return &said
}

// judge checks what the request says.
func (m *Model) judge(e envelope) *refusal {
	if no := violated(rebuild.Validate(rebuild.Anthropic, e.request)); no != nil {
		return no
	}
	if m.RequireTools && !e.hasTools && usesTools(e.request.Messages) {
		return invalid("Requests which include `tool_use` or `tool_result` blocks must define tools.")
	}
	if no := e.judgeMarks(); no != nil {
		return no
	}
	return e.judgeThinking()
}

// judgeSize checks a valid request against the model's limits.
func (m *Model) judgeSize(req Request) *refusal {
	name := m.Name
	if name == "" {
		name = req.Model
	}
	switch {
	case m.MaxOutput > 0 && req.MaxOutput > m.MaxOutput:
		return invalid("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", req.MaxOutput, m.MaxOutput, name)
	case m.Window > 0 && req.Tokens > m.Window:
		return overflow("prompt is too long: %d tokens > %d maximum", req.Tokens, m.Window)
	case m.Window > 0 && m.ReserveOutput && req.MaxOutput > m.Window-req.Tokens:
		return overflow("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again",
			req.Tokens, req.MaxOutput, m.Window)
	}
	return nil
}

func usesTools(messages []transcript.Message) bool {
	for _, m := range messages {
		for _, b := range m.Content {
			switch b.(type) {
			case transcript.ToolCallBlock, transcript.ToolResultBlock:
				return true
			}
		}
	}
	return false
}
