// Package gemini renders requests for the Gemini API, also on Vertex, and reads its
// answers. Any HTTP client sends the body that Request of a [Format] returns, to its
// Path. Response reads a whole answer; NewStream puts a streamed one together from the
// events of [wire.ReadSSE]. Package [wire] reads refusals and documents the rules
// common to all APIs.
package gemini

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Format renders for generateContent of the Gemini API, also on Vertex, and
// reads its answers. The zero value is ready to use: no thinking. It is a plain
// value, safe for several goroutines.
type Format struct {
	// Stream asks for the answer as server-sent events, see [Format.Path].
	Stream bool
	// Model is recorded as the model of each answer. Empty: the version that the
	// API gives. Set it to the model of the requests if that is an alias whose
	// versions have other names, so that reasoning can go back.
	Model string
	// Thinking is generationConfig.thinkingConfig of the request,
	// {"includeThoughts":true} for example. Nil leaves it out: the model
	// decides.
	Thinking json.RawMessage
	// With Prefill the model continues an answer at the end. Otherwise a text follows it.
	Prefill bool
	// Params are further members of the request, safetySettings or toolConfig
	// for example. "systemInstruction" and "tools" replace the request's; the
	// output limit and Thinking join the members of "generationConfig".
	// "contents" cannot be in it.
	Params map[string]json.RawMessage
}

// Path returns the path of the call below the version of the API. It holds the
// model and whether to stream, which the body does not.
func (g Format) Path(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	if g.Stream {
		return model + ":streamGenerateContent?alt=sse"
	}
	return model + ":generateContent"
}

func toolName(name string) string {
	name = neutral.ToolName(name)
	if c := name[0]; c == '-' || c >= '0' && c <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), format.MaxID)]
}

// Request renders the body of a call of generateContent or
// streamGenerateContent. The model is not in it: see [Format.Path].
//
// In addition to the rules of package wire it does this:
//
//   - A name of a tool that the API refuses becomes another one, by which answers
//     call the tool: characters other than A-Z a-z 0-9 _ - become _, a first
//     character that is no letter gets a _ before it, and 64 characters stay.
//   - Calls and results are paired by order and name. A call keeps an ID only
//     if the API gave it; then its result gets the same ID.
//   - All results of an answer form a content of their own; other blocks of the
//     user message follow as another content. A result is an object,
//     {"output":...} or {"error":...}; texts of one result are joined by
//     newlines. Images and documents of results follow the results (moved-media
//     in the report).
//   - A thought signature goes back to the model that made it, on the same
//     part. Gemini 3 and later refuse an answer whose first call lacks one:
//     such a call gets the text that Google documents for calls of other
//     models, unless another part of the answer is signed.
//   - Thoughts of all turns return to their model, except from an answer of
//     nothing else.
func (g Format) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(format.CheckRoles(req.Messages), format.CheckObject("thinking", g.Thinking), format.CheckParams(g.Params, "contents")); err != nil {
		return nil, nil, err
	}
	r := renderer{Talk: format.Talk{Rendering: format.NewRendering(req, format.APIGemini, format.IDForm{})}, format: g}
	r.Prefill = g.Prefill
	r.Messages(&r)

	config, params, err := format.Joined(g.Params, generationConfig, js.Member{Name: "maxOutputTokens", Value: js.Number(req.MaxOutput)}, js.Member{Name: "thinkingConfig", Value: g.Thinking})
	if err != nil {
		return nil, nil, err
	}
	tools, err := r.tools()
	if err != nil {
		return nil, nil, err
	}
	var system js.Written
	if r.Req.System != "" {
		system = js.Object("parts", js.List([]string{req.System}, js.Text))
	}
	return r.Body(
		params, generationConfig, config,
		"", params, "systemInstruction", system, "tools", tools, "contents", js.List(r.Out, contentJSON),
	)
}

// generationConfig is the member that holds, among others, the output limit.
const generationConfig = "generationConfig"

// tools returns the member "tools".
func (r *renderer) tools() (js.Written, error) {
	if _, given := r.format.Params["tools"]; given || len(r.Req.Tools) == 0 {
		return nil, nil
	}
	renamed, err := r.Renamed(r.Req.Tools, toolName)
	if err != nil {
		return nil, err
	}
	declarations := js.List(renamed, func(t transcript.Tool) js.Written {
		return js.Object(format.ToolMembers(t, "parametersJsonSchema", "")...)
	})
	return js.List([]js.Written{js.Object("functionDeclarations", declarations)}, js.As), nil
}
