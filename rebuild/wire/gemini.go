package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// apiGemini is what [transcript.Response] and [transcript.Origin] call the
// Gemini API.
const apiGemini = "gemini"

// Gemini renders for generateContent of the Gemini API, which Vertex has too,
// and reads its answers. The zero value is ready to use: no thinking. It is a
// plain value, safe for several goroutines.
type Gemini struct {
	// Stream asks for the answer as server-sent events, see [Gemini.Path].
	Stream bool
	// Model is what answers say as their model, and what Validate takes for the
	// model that is asked. Empty: the version that the API gives. Set it to the
	// model of the requests if that is an alias whose versions have other
	// names, so that reasoning finds the way back.
	Model string
	// Thinking is generationConfig.thinkingConfig of the request,
	// {"includeThoughts":true} for example. Nil leaves it out, and so leaves it
	// to the model.
	Thinking json.RawMessage
	// Params are further members of the request, safetySettings or toolConfig
	// for example. "systemInstruction" and "tools" are used instead of what the
	// request says; the members of "generationConfig" are joined by the output
	// limit and Thinking. "contents" cannot be in it.
	Params map[string]json.RawMessage
}

// Path is the path of the call below the version of the API: the model of a
// request and whether it is streamed are not in its body.
func (g Gemini) Path(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	if g.Stream {
		return model + ":streamGenerateContent?alt=sse"
	}
	return model + ":generateContent"
}

// ToolName is how the API is shown a tool of that name, and how answers call
// it: characters that are not A-Z a-z 0-9 _ - become _, a name that does not
// begin with a letter or _ has one in front, and 64 characters stay. Names that
// the API takes are not changed.
func (Gemini) ToolName(name string) string {
	name = rebuild.ToolName(name)
	if c := name[0]; c == '-' || c >= '0' && c <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), maxID)]
}

// Request renders the body of a call of generateContent or
// streamGenerateContent. The model is not in it: see [Gemini.Path].
//
// Beyond what every format does, see the package, it sees to this:
//
//   - Calls and results are paired by order and name. A call has an ID only if
//     the API gave it one, and then so has its result.
//   - All results of an answer are one content and nothing is beside them: what
//     else the user message has follows as a user content of its own. A result
//     is an object, {"output":...} or {"error":...}; texts of one result are
//     joined by newlines. Images and documents of results follow the results
//     ([rebuild.MovedMedia]).
//   - A thought signature goes back to the model that made it, on the part it
//     came with. Gemini 3 and later refuse an answer whose first call has none:
//     there the text that Google documents for calls of other models stands in
//     its place, unless another part of the answer is signed.
//   - Thoughts are given back to the model that made them, those of all turns, and
//     are left out of an answer that nothing else is left of.
//   - Names of tools are as [Gemini.ToolName] says.
func (g Gemini) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(checkRoles(req.Messages), checkObject("thinking", g.Thinking), checkParams(g.Params, "contents")); err != nil {
		return nil, nil, err
	}
	r := geminiRenderer{talk: talk{rendering: newRendering(req, apiGemini, idForm{})}, format: g}
	r.messages(&r)

	config, params, err := joined(g.Params, generationConfig, member{"maxOutputTokens", number(req.MaxOutput)}, member{"thinkingConfig", g.Thinking})
	if err != nil {
		return nil, nil, err
	}
	tools, err := r.tools()
	if err != nil {
		return nil, nil, err
	}
	var system written
	if r.req.System != "" {
		system = object("parts", list([]string{req.System}, textJSON))
	}
	return r.request(
		params, generationConfig, config,
		"", params, "systemInstruction", system, "tools", tools, "contents", list(r.out, contentJSON),
	)
}

// generationConfig is the member that holds the output limit among others.
const generationConfig = "generationConfig"

// tools returns the member of that name.
func (r *geminiRenderer) tools() (written, error) {
	if _, given := r.format.Params["tools"]; given || len(r.req.Tools) == 0 {
		return nil, nil
	}
	renamed, err := r.renamed(r.req.Tools, r.format.ToolName)
	if err != nil {
		return nil, err
	}
	declarations := list(renamed, func(t transcript.Tool) written {
		return object(toolMembers(t, "parametersJsonSchema", "")...)
	})
	return list([]written{object("functionDeclarations", declarations)}, as), nil
}
