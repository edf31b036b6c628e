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
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// openaiSDK is one of two APIs through openai-go.
//
// The SDK sends the rendered body unchanged, and the events are read in their raw
// form, since the types of the SDK lose unknown members. The SDK does the rest:
// credentials, headers, connections, and retries before an answer begins. A refusal is
// an [openai.Error], which package guard understands.
type openaiSDK struct {
	sdk     openai.Client
	path    string
	request func(transcript.Request) ([]byte, rebuild.Report, error)
	stream  func() wire.Stream
}

// openChat opens Chat Completions. This API takes no reasoning back.
func openChat(_ context.Context, at *endpoint, _ json.RawMessage) (service, error) {
	format := openaichat.Format{Stream: true}
	return &openaiSDK{openaiClient(at), "chat/completions", format.Request, format.NewStream}, nil
}

func openResponses(_ context.Context, at *endpoint, reasoning json.RawMessage) (service, error) {
	format := openairesponses.Format{Stream: true, Reasoning: reasoning}
	return &openaiSDK{openaiClient(at), "responses", format.Request, format.NewStream}, nil
}

func openaiClient(at *endpoint) openai.Client {
	var opts []option.RequestOption
	if at != nil {
		opts = append(opts, option.WithHTTPClient(at.http), option.WithBaseURL(at.url+"/v1"), option.WithAPIKey(at.key))
		if at.once {
			opts = append(opts, option.WithMaxRetries(0))
		}
	}
	return openai.NewClient(opts...)
}

func (a *openaiSDK) complete(ctx context.Context, req transcript.Request, _ bool, show func(wire.Delta)) (*transcript.Response, error) {
	body, _, err := a.request(req)
	if err != nil {
		return nil, err
	}
	in := a.stream()
	var answer *http.Response
	err = a.sdk.Post(ctx, a.path, nil, &answer, option.WithRequestBody("application/json", body))
	if refusal, ok := errors.AsType[*openai.Error](err); ok {
		return nil, fmt.Errorf("%w: %s", err, refusal.Message) // the SDK drops the message
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
