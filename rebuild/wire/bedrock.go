package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// apiBedrock is what [transcript.Response] and [transcript.Origin] call
// Converse.
const apiBedrock = "bedrock"

// Bedrock renders for Converse of Amazon Bedrock and reads its answers. The
// zero value renders; set Model for answers. It is a plain value, safe for
// several goroutines.
type Bedrock struct {
	// Stream asks for the answer as a stream of events, see [Bedrock.Path].
	Stream bool
	// Model is what answers say as their model, since Converse does not name
	// it: the model of the requests, or reasoning does not find the way back.
	Model string
	// Thinking is additionalModelRequestFields.thinking of the request,
	// {"type":"enabled","budget_tokens":4096} for Claude for example. Nil
	// leaves it out.
	Thinking json.RawMessage
	// Cache puts cache points behind the system prompt, the tools, the messages and
	// those of the request before. Empty: none. Models that have no cache refuse them.
	Cache CacheTTL
	// PureResults is for models that take nothing beside the results of tools
	// in a message, Llama for example: what else there is goes into the last
	// result.
	PureResults bool
	// Params are further members of the request, guardrailConfig for example.
	// "system" and "toolConfig" are used instead of what the request says; the
	// members of "inferenceConfig" and "additionalModelRequestFields" are
	// joined by the output limit and Thinking. "messages" cannot be in it.
	Params map[string]json.RawMessage
}

// Path is the path of the call: the model of a request and whether it is
// streamed are not in its body.
func (b Bedrock) Path(model string) string {
	path := "/model/" + url.PathEscape(model) + "/converse"
	if b.Stream {
		path += "-stream"
	}
	return path
}

// ToolName is how the API is shown a tool of that name, and how answers call
// it: characters that are not A-Z a-z 0-9 _ - become _, and 64 characters stay.
// Names that the API takes are not changed.
func (Bedrock) ToolName(name string) string { return rebuild.ToolName(name) }

// Request renders the body of a call of Converse or ConverseStream. The model
// is not in it: see [Bedrock.Path].
//
// Beyond what every format does, see the package, it sees to this:
//
//   - Reasoning is given back by the rules of [Anthropic.Request]; so is what becomes of Thinking when the running turn
//     has no reasoning to go on from, or the output limit no room.
//   - If the messages have calls, the request defines tools: if it has none,
//     those that are called, see [rebuild.AddedTools].
//   - Images and documents go as bytes. A document has a name that is unique in
//     the request and in the characters that the API allows, made of its title,
//     and a text beside it.
//   - Of more than 5 documents or 20 images the last stay, the others become a
//     short text. This changes the bytes of earlier messages.
//   - A result that is an error has a text, and texts only.
//   - Citations of a text go back to the model that made them.
//   - Names of tools are as [Bedrock.ToolName] says.
func (b Bedrock) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(checkRoles(req.Messages), checkObject("thinking", b.Thinking), checkParams(b.Params, "messages"), checkCache(b.Cache)); err != nil {
		return nil, nil, err
	}
	r := bedrockRenderer{renderer: newRenderer(req, apiBedrock), format: b, names: map[string]bool{}}
	r.plainPrompts = true
	thinking := r.ask(b.Thinking, req.MaxOutput)
	messages := r.messages()
	thinking = r.asked(thinking)

	fields, params, err := joined(b.Params, modelFields, member{"thinking", thinking})
	config, params, err2 := joined(params, inferenceConfig, member{"maxTokens", number(req.MaxOutput)})
	if err := cmp.Or(err, err2); err != nil {
		return nil, nil, err
	}
	tools, err := r.tools()
	if err != nil {
		return nil, nil, err
	}
	var system written
	if r.req.System != "" {
		system = list(b.pointed([]written{textJSON(req.System)}), as)
	}
	return r.request(
		params, "", params, modelFields, fields, inferenceConfig, config,
		"system", system, "toolConfig", tools, "messages", messages,
	)
}

// The members that hold the output limit and Thinking among others.
const (
	inferenceConfig = "inferenceConfig"
	modelFields     = "additionalModelRequestFields"
)

// tools returns the member toolConfig, nil for none.
func (r *bedrockRenderer) tools() (written, error) {
	tools := r.req.Tools
	if _, given := r.format.Params["toolConfig"]; given || len(tools)+len(r.called) == 0 {
		return nil, nil
	}
	if len(tools) == 0 {
		for _, name := range r.called {
			tools = append(tools, transcript.Tool{Name: name})
		}
		r.note(rebuild.AddedTools, "", fmt.Sprintf("%d that the messages call", len(tools)))
	}
	renamed, err := r.renamed(tools, r.format.ToolName)
	if err != nil {
		return nil, err
	}
	specs := make([]written, 0, len(renamed)+1)
	for _, t := range renamed {
		if !jsontext.IsNull(t.InputSchema) {
			t.InputSchema = object("json", t.InputSchema).bytes()
		}
		specs = append(specs, object("toolSpec", object(toolMembers(t, "inputSchema", `{"json":{"type":"object"}}`)...)))
	}
	return object("tools", list(r.format.pointed(specs), as)), nil
}

// pointed adds a cache point to a list if there are any.
func (b Bedrock) pointed(list []written) []written {
	if b.Cache == "" {
		return list
	}
	return append(list, cachePoint(b.Cache))
}
