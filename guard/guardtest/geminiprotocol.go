package guardtest

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A protocol is an API other than that of Messages, for one request.
type protocol struct {
	model                string // of the request, from its path
	stream               bool
	jsonType, streamType string
	validate             func(body []byte) []rebuild.Violation
	decode               func(body []byte) (transcript.Request, error)
	size                 func(m *Model, req Request) *refusal
	answer               func(a message) []byte
	events               func(a message) [][]byte
	// failure returns the status and the body of an error, and may set headers.
	failure      func(h http.Header, status int, text string) (int, []byte)
	failureEvent func(status int, text string) []byte
}

// maxOtherBody is the limit of the other APIs in bytes.
const maxOtherBody = 20 << 20

// protocolOf returns the protocol of a path, nil for the Messages API.
func protocolOf(path string) *protocol {
	if p := geminiProtocol(path); p != nil {
		return p
	}
	return bedrockProtocol(path)
}

// speak answers a request. An error means that the connection is to be broken.
func (x *exchange) speak(p *protocol) error {
	if x.r.Method != http.MethodPost {
		x.w.Header().Set("Allow", http.MethodPost)
		return x.fail(p, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
	req, no, err := x.m.readAs(p, x.w, x.r)
	if err != nil {
		return err
	}
	rec := x.m.begin(req, no)
	defer x.m.end(rec)
	if no != nil {
		err = x.fail(p, no.status, no.text)
	} else {
		rule := x.m.Answer
		err = x.playAs(p, rec, rule.orEcho(rec.Request))
	}
	if err != nil && !errors.Is(err, errBreak) && !errors.Is(context.Cause(x.r.Context()), errClosed) {
		x.m.gone(rec)
	}
	return err
}

// readAs reads a request and judges it.
func (m *Model) readAs(p *protocol, w http.ResponseWriter, r *http.Request) (req Request, no *refusal, err error) {
	req = Request{Header: r.Header.Clone(), Stream: p.stream}
	limit := m.MaxBody
	if limit == 0 {
		limit = maxOtherBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		no := overflow("Request payload size exceeds the limit: %d bytes.", limit)
		no.status = http.StatusRequestEntityTooLarge
		return req, no, nil
	}
	if err != nil {
		return req, nil, err
	}
	req.Body = body
	if v := p.validate(body); len(v) > 0 {
		no := invalid("%s", v[0].Text)
		no.violations = v
		return req, no, nil
	}
	if req.Request, err = p.decode(body); err != nil {
		return req, invalid("Invalid JSON payload received. %v", err), nil
	}
	req.Model = p.model
	req.Tokens = m.tokens(req.System, req.Tools, req.Messages)
	return req, p.size(m, req), nil
}

// fail answers with an error.
func (x *exchange) fail(p *protocol, status int, text string) error {
	status, body := p.failure(x.w.Header(), status, text)
	return x.send(status, p.jsonType, body)
}

// playAs gives an answer to an accepted request.
func (x *exchange) playAs(p *protocol, rec *Recorded, a Answer) error {
	f := a.fault
	if f == nil {
		f = &fault{kind: faultNone}
	}
	fails := f.kind == faultError || f.kind == faultEvent && !p.stream
	stalls := f.kind == faultStall && (!p.stream || f.after == 0)
	outcome, status, text := Answered, http.StatusOK, ""
	if f.kind != faultNone {
		outcome = Failed
	}
	switch {
	case fails:
		status, _ = p.failure(http.Header{}, f.status, f.text)
		text = f.text
	case f.kind == faultEvent:
		text = f.text
	case f.kind == faultBody:
		status = f.status
	case stalls:
		status = 0
	}
	x.m.settle(rec, outcome, status, text)

	mime := p.jsonType
	if p.stream {
		mime = p.streamType
	}
	switch {
	case stalls:
		return x.stall()
	case fails:
		x.retryAfter(f.retryAfter)
		return x.fail(p, f.status, f.text)
	case f.kind == faultBody:
		if f.mime != "" {
			mime = f.mime
		}
		return x.send(status, mime, []byte(f.body))
	}
	req := rec.Request
	if req.MaxOutput == 0 {
		req.MaxOutput = math.MaxInt32
	}
	msg := x.m.message(req, a)
	msg.id = x.id
	if p.stream {
		return x.streamAs(p, p.events(msg), f)
	}
	return x.sendPart(p, p.answer(msg), f)
}

// streamAs sends events until a fault ends them.
func (x *exchange) streamAs(p *protocol, events [][]byte, f *fault) error {
	x.head(http.StatusOK, p.streamType)
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return err
	}
	after := min(f.after, len(events))
	switch f.kind {
	case faultNone:
		after = len(events)
	case faultCutInput:
		after = len(events) / 2
	default:
	}
	for _, e := range events[:after] {
		if err := x.sendEvent(e); err != nil {
			return err
		}
	}
	switch f.kind {
	case faultEvent:
		return x.sendEvent(p.failureEvent(f.status, f.text))
	case faultStall:
		return x.stall()
	case faultCutLine:
		if after < len(events) {
			if err := x.sendEvent(events[after][:len(events[after])/2]); err != nil {
				return err
			}
		}
		return errBreak
	case faultCut, faultCutInput:
		return errBreak
	default:
		return nil
	}
}

// sendPart sends an answer that is not streamed, or half of it.
func (x *exchange) sendPart(p *protocol, body []byte, f *fault) error {
	if f.kind == faultNone {
		return x.send(http.StatusOK, p.jsonType, body)
	}
	if err := x.send(http.StatusOK, p.jsonType, body[:len(body)/2]); err != nil || f.kind == faultEnd {
		return err
	}
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return err
	}
	return errBreak
}
