package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// An api is one of the two APIs of the service.
type api struct {
	path    string
	request func(transcript.Request) ([]byte, rebuild.Report, error)
	stream  func() stream
}

// A stream puts the events of an answer together.
type stream interface {
	Add(event []byte) (wire.Delta, error)
	Response() *transcript.Response
}

// newAPI returns the API of that name, "chat" or "responses". Only the latter
// gives a model its reasoning back.
func newAPI(name string, reasoning json.RawMessage) (api, error) {
	switch name {
	case "chat":
		format := wire.OpenAIChat{Stream: true}
		return api{"chat/completions", format.Request, func() stream { return format.NewStream() }}, nil
	case "responses":
		format := wire.OpenAIResponses{Stream: true, Reasoning: reasoning}
		return api{"responses", format.Request, func() stream { return format.NewStream() }}, nil
	}
	return api{}, fmt.Errorf("there is no API called %q, only chat and responses", name)
}

// complete sends a request through the SDK and puts the answer together; show
// is called for each piece of it. An answer that was cut is returned with the
// error.
//
// The body goes out as it was rendered and the events are read as they came,
// since the types of the SDK lose what they do not know. The SDK does the rest:
// credentials, headers, connections, and trying again what failed before an
// answer began. Refusals are an [openai.Error], which package guard understands.
func (a *agent) complete(ctx context.Context, format api, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	body, _, err := format.request(req)
	if err != nil {
		return nil, err
	}
	in := format.stream()
	var answer *http.Response
	err = a.sdk.Post(ctx, format.path, nil, &answer, option.WithRequestBody("application/json", body))
	if refusal, ok := errors.AsType[*openai.Error](err); ok {
		return nil, fmt.Errorf("%w: %s", err, refusal.Message) // the SDK does not say it
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	err = wire.ReadSSE(answer.Body, func(event []byte) error {
		delta, err := in.Add(event)
		if err == nil {
			show(delta)
		}
		return err
	})
	resp := in.Response()
	if id := answer.Header.Get("x-request-id"); id != "" {
		resp.RequestID = id
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err == nil && resp.StopReason == transcript.StopAborted {
		err = io.ErrUnexpectedEOF
	}
	return resp, err
}
