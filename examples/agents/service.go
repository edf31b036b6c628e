package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// A service is one API of a provider, through the provider's official SDK.
type service interface {
	// complete sends a request through the SDK, assembles the answer, and calls show
	// for each piece. After an error it also returns the received part, if any. A
	// background request is not part of the conversation: it needs no reasoning, and
	// no later request begins with it.
	complete(ctx context.Context, req transcript.Request, background bool, show func(wire.Delta)) (*transcript.Response, error)
}

// An endpoint is the address of a service. Nil means the real service; then the SDK
// finds the key in its environment variable.
type endpoint struct {
	http *http.Client
	url  string
	key  string
	once bool // the SDK does not retry
}

// An api is a value of the flag -api.
type api struct {
	model  string // the default model
	window int    // the context window of that model in tokens
	open   func(ctx context.Context, at *endpoint, reasoning json.RawMessage) (service, error)
}

var apis = map[string]api{
	"anthropic": {anthropic.ModelClaudeSonnet5_5, 200_000, openAnthropic},
	"responses": {openai.ChatModelGPT5_5, 400_000, openResponses},
	"chat":      {openai.ChatModelGPT5_5, 400_000, openChat},
	"gemini":    {"gemini-3-pro-preview", 1_000_000, openGemini},
}
