// Package bedrock renders requests for Converse of Amazon Bedrock and reads its
// answers. A client that signs sends the body that Request of a [Format] returns, to
// its Path. Response reads a whole answer; NewStream puts together the results of
// [Event] for a streamed one. Package [wire] reads refusals and documents the rules
// common to all APIs.
package bedrock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// Format renders for Converse of Amazon Bedrock and reads its answers. The
// zero value renders; set Model for answers. It is a plain value, safe for
// several goroutines.
type Format struct {
	// Stream asks for the answer as a stream of events, see [Format.Path].
	Stream bool
	// Model is recorded as the model of each answer, because Converse names none. Set
	// it to the model of the requests: reasoning is returned only to its maker.
	Model string
	// Thinking is additionalModelRequestFields.thinking of the request,
	// {"type":"enabled","budget_tokens":4096} for Claude for example. Nil
	// leaves it out.
	Thinking json.RawMessage
	// Cache puts cache points after the system prompt, the tools, the messages and the
	// previous request's messages. Empty: none. Models without a cache refuse them.
	Cache wire.CacheTTL
	// With Prefill the model continues an answer at the end. Otherwise a text follows it.
	Prefill bool
	// PureResults is for models that refuse other blocks in a message with
	// results, Llama for example: these go into the last result.
	PureResults bool
	// Params are further members of the request, guardrailConfig for example. "system" and
	// "toolConfig" replace the request's, and [rebuild.PromptHash] does not include them; the
	// output limit joins the members of "inferenceConfig", and Thinking joins
	// "additionalModelRequestFields". "messages" cannot be in it.
	Params map[string]json.RawMessage
}

// Path returns the path of the call. It holds the model and whether to stream,
// which the body does not.
func (b Format) Path(model string) string {
	path := "/model/" + url.PathEscape(model) + "/converse"
	if b.Stream {
		path += "-stream"
	}
	return path
}

// Request renders the body of a call of Converse or ConverseStream. The model
// is not in it: see [Format.Path].
//
// In addition to the rules of package wire it does this:
//
//   - Reasoning and Thinking follow the rules of package anthropic, even if the running
//     turn lacks reasoning to continue, or the output limit leaves no room.
//   - If the messages have calls but the request lacks tools, it defines the
//     called ones (added-tools in the report).
//   - In the name of a tool, characters other than A-Z a-z 0-9 _ - become _, and 64
//     characters stay. Answers call the tool by the new name.
//   - Images and documents go as bytes. A document gets a unique name of
//     allowed characters, made of its title, and a text next to it.
//   - Of more than 5 documents or 20 images the last stay; each other becomes a
//     short text. This changes the bytes of earlier messages.
//   - A result with an error contains texts only, at least one.
//   - Citations of a text go back to the model that made them.
func (b Format) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(format.CheckRoles(req.Messages), format.CheckObject("thinking", b.Thinking), format.CheckParams(b.Params, "messages"), messages.CheckCache(b.Cache)); err != nil {
		return nil, nil, err
	}
	r := renderer{Renderer: messages.New(req, format.APIBedrock, ""), format: b, names: map[string]bool{}}
	r.PlainPrompts, r.Prefill = true, b.Prefill
	thinking := r.Ask(b.Thinking, req.MaxOutput)
	rendered := r.messageList()
	thinking = r.Asked(thinking)

	fields, params, err := format.Joined(b.Params, modelFields, js.Member{Name: "thinking", Value: thinking})
	config, params, err2 := format.Joined(params, inferenceConfig, js.Member{Name: "maxTokens", Value: js.Number(req.MaxOutput)})
	if err := cmp.Or(err, err2); err != nil {
		return nil, nil, err
	}
	tools, err := r.tools()
	if err != nil {
		return nil, nil, err
	}
	var system js.Written
	if r.Req.System != "" {
		system = js.List(b.pointed([]js.Written{js.Text(req.System)}), js.As)
	}
	return r.Body(
		params, "", params, modelFields, fields, inferenceConfig, config,
		"system", system, "toolConfig", tools, "messages", rendered,
	)
}

// The members that hold, among others, the output limit and Thinking.
const (
	inferenceConfig = "inferenceConfig"
	modelFields     = "additionalModelRequestFields"
)

// tools returns the member toolConfig, nil for none.
func (r *renderer) tools() (js.Written, error) {
	tools := r.Req.Tools
	if _, given := r.format.Params["toolConfig"]; given || len(tools)+len(r.called) == 0 {
		return nil, nil
	}
	if len(tools) == 0 {
		for _, name := range r.called {
			tools = append(tools, transcript.Tool{Name: name})
		}
		r.Note("added-tools", "", fmt.Sprintf("%d that the messages call", len(tools)))
	}
	renamed, err := r.Renamed(tools, neutral.ToolName)
	if err != nil {
		return nil, err
	}
	specs := make([]js.Written, 0, len(renamed)+1)
	for _, t := range renamed {
		if !jsontext.IsNull(t.InputSchema) {
			t.InputSchema = js.Object("json", t.InputSchema).Bytes()
		}
		specs = append(specs, js.Object("toolSpec", js.Object(format.ToolMembers(t, "inputSchema", `{"json":{"type":"object"}}`, "strict")...)))
	}
	return js.Object("tools", js.List(r.format.pointed(specs), js.As)), nil
}

// pointed adds a cache point to a list if Cache is set.
func (b Format) pointed(list []js.Written) []js.Written {
	if b.Cache == "" {
		return list
	}
	return append(list, cachePoint(b.Cache))
}

// cachePoint is the block of Converse that ends the cached part.
func cachePoint(c wire.CacheTTL) js.Written {
	return js.Object("cachePoint", messages.Mark(c, "default"))
}
