package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"google.golang.org/genai"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

// geminiSDK is the API of Gemini through google.golang.org/genai.
//
// The SDK sends the rendered body unchanged, since its types take signatures only in
// base64. Events are read from its types, which keep all data except the spelling of
// inputs. The SDK does the rest: credentials, headers and connections. A refusal is a
// [genai.APIError], which package guard understands.
type geminiSDK struct {
	sdk    *genai.Client
	format gemini.Format
}

func openGemini(ctx context.Context, at *endpoint, thinking json.RawMessage) (service, error) {
	var config *genai.ClientConfig // nil: the SDK finds the key and the service
	if at != nil {
		config = &genai.ClientConfig{
			Backend: genai.BackendGeminiAPI, APIKey: at.key, HTTPClient: at.http, HTTPOptions: genai.HTTPOptions{BaseURL: at.url},
		}
	}
	sdk, err := genai.NewClient(ctx, config)
	if err != nil {
		return nil, err
	}
	return &geminiSDK{sdk, gemini.Format{Stream: true, Thinking: thinking}}, nil
}

func (a *geminiSDK) complete(ctx context.Context, req transcript.Request, background bool, show func(wire.Delta)) (*transcript.Response, error) {
	format := a.format
	format.Model = req.Model
	if background {
		format = gemini.Format{Stream: true}
	}
	config, err := requestConfig(format, req)
	if err != nil {
		return nil, err
	}
	stream := format.NewStream()
	for chunk, err := range a.sdk.Models.GenerateContentStream(ctx, req.Model, nil, config) {
		if refusal, ok := errors.AsType[genai.APIError](err); ok {
			_, _ = stream.Add(eventOf(map[string]any{"error": refusal})) // err also holds the refusal
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return stream.Response(), err
		}
		chunk.SDKHTTPResponse = nil // the headers
		delta, err := stream.Add(eventOf(chunk))
		if err != nil {
			return stream.Response(), err
		}
		show(delta)
	}
	resp := stream.Response()
	if ctx.Err() != nil {
		return resp, ctx.Err()
	}
	if resp.StopReason == transcript.StopAborted {
		return resp, io.ErrUnexpectedEOF
	}
	return resp, nil
}

// requestConfig returns a config with which the SDK sends the rendered request unchanged.
func requestConfig(format gemini.Format, req transcript.Request) (*genai.GenerateContentConfig, error) {
	body, _, err := format.Request(req)
	if err != nil {
		return nil, err
	}
	var rendered map[string]json.RawMessage
	if err := json.Unmarshal(body, &rendered); err != nil {
		return nil, err
	}
	members := map[string]any{}
	for name, value := range rendered {
		members[name] = value
	}
	return &genai.GenerateContentConfig{
		AutomaticContinuation: new(false),
		HTTPOptions: &genai.HTTPOptions{
			ExtrasRequestProvider: func(map[string]any) map[string]any { return members },
		},
	}, nil
}

// eventOf returns the JSON of a value that the SDK read from JSON.
func eventOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return nil // the stream reports a bad event
	}
	return data
}
