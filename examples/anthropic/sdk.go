package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// complete sends a request through the SDK and puts the answer together; show
// is called for each piece of it. An answer that was cut is returned with the
// error.
//
// The body goes out as it was rendered and the events are read as they came,
// since the types of the SDK lose what they do not know. The SDK does the rest:
// credentials, headers, connections, and trying again what failed before an
// answer began. Refusals are an [anthropic.Error], which package guard
// understands.
func (a *agent) complete(ctx context.Context, format wire.Anthropic, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
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
		_, _ = stream.Add([]byte(refusal.RawJSON())) // err says it too
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
