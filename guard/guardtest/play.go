package guardtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/internal/wiretest"
)

// errClosed is the cause that ends the context of a request when its server closes.
var errClosed = errors.New("guardtest: server closed")

// errBreak reports that the connection must be broken.
var errBreak = errors.New("guardtest: connection broken on purpose")

func (x *exchange) play(rec *Recorded, a Answer) error {
	f := a.fault
	said := x.worded(&f.no)
	outcome, text := Answered, ""
	if f.kind != faultNone {
		outcome = Failed
	}
	switch {
	case f.kind == faultError, f.kind == faultEvent && !rec.Stream:
		x.m.settle(rec, outcome, said.Status, said.Text)
		if f.retryAfter > 0 {
			x.w.Header().Set("Retry-After", strconv.Itoa(int((f.retryAfter+time.Second-1)/time.Second)))
		}
		return x.sendError(said)
	case f.kind == faultBody:
		x.m.settle(rec, outcome, f.no.Status, "")
		return x.send(f.no.Status, "text/html; charset=utf-8", nil, []byte(f.body))
	case f.kind == faultStall && (!rec.Stream || f.after == 0):
		x.m.settle(rec, outcome, 0, "")
		return x.stall()
	case f.kind == faultEvent:
		text = said.Text
	}
	x.m.settle(rec, outcome, http.StatusOK, text)
	msg := x.m.message(rec.Request, a)
	msg.ID = x.id
	if rec.Stream {
		return x.stream(x.api.Events(msg), f, x.api.Fail(said, msg, x.requestID()))
	}
	return x.sendFaulty(x.api.Whole(msg), f)
}

// stall waits until the client disconnects or the server is closed.
func (x *exchange) stall() error {
	<-x.r.Context().Done()
	return context.Cause(x.r.Context())
}

// stream sends events until a fault ends the stream; failed is the error event.
func (x *exchange) stream(events []wiretest.Event, f fault, failed wiretest.Event) error {
	x.head(http.StatusOK, x.contentType(true), nil)
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return err
	}
	after := min(f.after, len(events))
	switch f.kind {
	case faultCutInput:
		after = midInput(events)
	case faultNone:
		after = len(events)
	default:
	}
	sent := slices.Clip(events[:after])
	switch {
	case f.kind == faultEvent:
		sent = append(sent, failed)
	case f.kind == faultCut && after < len(events):
		line := events[after].Data
		sent = append(sent, wiretest.Event{Data: line[:len(line)/2]})
	}
	for _, e := range sent {
		if err := x.sendEvent(e.Data); err != nil {
			return err
		}
	}
	switch f.kind {
	case faultStall:
		return x.stall()
	case faultCut, faultCutInput:
		return errBreak
	default:
		return nil
	}
}

// midInput returns the number of events up to the middle of the input of the first
// call, or half of all events if no call has an input.
func midInput(events []wiretest.Event) int {
	first := slices.IndexFunc(events, func(e wiretest.Event) bool { return e.Input })
	if first < 0 {
		return len(events) / 2
	}
	n := slices.IndexFunc(events[first:], func(e wiretest.Event) bool { return !e.Input })
	return first + (n+1)/2 // every stream ends after its inputs
}

func (x *exchange) sendEvent(data []byte) error {
	ctx := x.r.Context()
	if x.m.Pace != nil {
		if err := x.m.Pace(ctx); err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("%w: %w", errBreak, err)
			}
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := x.w.Write(data); err != nil {
		return err
	}
	return http.NewResponseController(x.w).Flush()
}

// sendFaulty sends an answer that is not streamed, or half of it.
func (x *exchange) sendFaulty(body []byte, f fault) error {
	if f.kind != faultNone {
		body = body[:len(body)/2]
	}
	err := x.send(http.StatusOK, x.contentType(false), nil, body)
	if err != nil || f.kind == faultNone || f.kind == faultEnd {
		return err
	}
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return err
	}
	return errBreak
}

func (x *exchange) sendError(no *wiretest.Refusal) error {
	return x.send(no.Status, x.contentType(false), no, x.api.Refuse(no, x.requestID()))
}

// send sends a whole body; no is the refusal in it, or nil.
func (x *exchange) send(status int, contentType string, no *wiretest.Refusal, body []byte) error {
	x.head(status, contentType, no)
	_, err := x.w.Write(body)
	return err
}

func (x *exchange) head(status int, contentType string, no *wiretest.Refusal) {
	x.w.Header().Set("Content-Type", contentType)
	x.api.Form().Head(x.w.Header(), no, x.requestID())
	x.w.WriteHeader(status)
}

func (x *exchange) contentType(stream bool) string {
	if stream {
		return x.api.Form().Stream
	}
	return x.api.Form().Whole
}

func (x *exchange) requestID() string { return fmt.Sprintf("req_%06d", x.id) }
