package guardtest

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/convolog/convolog/internal/wiretest"
)

// read reads a request and judges it. If it refuses the request, it returns the
// readable part. An error means that the client disconnected while sending.
func (x *exchange) read() (req Request, no *wiretest.Refusal, err error) {
	m := x.m
	req = Request{Host: cmp.Or(x.r.Host, x.r.URL.Host), Header: x.r.Header.Clone()}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.maxBody()))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return req, x.worded(wiretest.TooLarge()), nil
	}
	if err != nil {
		return req, nil, err
	}
	req.Body = body
	_, isAnthropic := x.api.(wiretest.Anthropic)
	if isAnthropic && x.r.Header.Get("Anthropic-Version") == "" {
		return req, wiretest.Invalid("anthropic-version: header is required"), nil
	}
	read, found := x.api.Decode(body)
	req.Request, req.Stream = read.Request, read.Stream
	switch {
	case len(found) > 0:
		no = wiretest.Invalid("%s", found[0].Text)
	default:
		no = m.checkBinding(x.api.Form(), req.Request)
	}
	if no == nil {
		req.Tokens = m.tokens(req.System, req.Tools, req.Messages)
		limits := wiretest.Limits{Model: cmp.Or(m.Name, req.Model), Window: m.Window, MaxOutput: m.MaxOutput, ReserveOutput: m.ReserveOutput}
		no = x.api.Form().Fit(limits, req.Tokens, req.MaxOutput)
	}
	return req, x.worded(no), nil
}

func (x *exchange) maxBody() int64 { return cmp.Or(x.m.MaxBody, x.api.Form().MaxBody) }

func (x *exchange) worded(no *wiretest.Refusal) *wiretest.Refusal {
	if no == nil {
		return nil
	}
	said := x.api.Form().Word(*no, x.maxBody())
	return &said
}
