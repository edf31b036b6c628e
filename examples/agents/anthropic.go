package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/convolog/convolog/rebuild/wire"
	messagesapi "github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// anthropicSDK is the Messages API through anthropic-sdk-go.
//
// The SDK sends the rendered body unchanged, and the events are read in their raw
// form, since the types of the SDK lose unknown members. The SDK does the rest:
// credentials, headers, connections, and retries before an answer begins. A refusal is
// an [anthropic.Error], which package guard understands.
type anthropicSDK struct {
	sdk    anthropic.Client
	format messagesapi.Format
}

func openAnthropic(_ context.Context, at *endpoint, thinking json.RawMessage) (service, error) {
	var opts []option.RequestOption
	if at != nil {
		opts = append(opts, option.WithoutEnvironmentDefaults(), option.WithHTTPClient(at.http), option.WithBaseURL(at.url), option.WithAPIKey(at.key))
		if at.once {
			opts = append(opts, option.WithMaxRetries(0))
		}
	}
	return &anthropicSDK{
		sdk: anthropic.NewClient(opts...),
		// With cache_control the service finds cached parts itself.
		format: messagesapi.Format{Stream: true, Thinking: thinking, Params: map[string]json.RawMessage{
			"cache_control": json.RawMessage(`{"type":"ephemeral"}`),
		}},
	}, nil
}

func (a *anthropicSDK) complete(ctx context.Context, req transcript.Request, background bool, show func(wire.Delta)) (*transcript.Response, error) {
	format := a.format
	if background {
		format = messagesapi.Format{Stream: true}
	}
	body, _, err := format.Request(req)
	if err != nil {
		return nil, err
	}
	var header *http.Response
	events := a.sdk.Messages.NewStreaming(ctx, anthropic.MessageNewParams{},
		option.WithRequestBody("application/json", body), option.WithResponseInto(&header))
	defer func() { _ = events.Close() }() // only read

	stream := format.NewStream()
	for events.Next() {
		delta, err := stream.Add([]byte(events.Current().RawJSON()))
		if err != nil {
			return stream.Response(), err
		}
		show(delta)
	}
	err = events.Err()
	if refusal, ok := errors.AsType[*anthropic.Error](err); ok {
		_, _ = stream.Add([]byte(refusal.RawJSON())) // err also holds the refusal
	}
	resp := stream.Response()
	if header != nil {
		resp.RequestID = header.Header.Get("request-id")
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err == nil && resp.StopReason == transcript.StopAborted {
		err = io.ErrUnexpectedEOF
	}
	return resp, err
}
