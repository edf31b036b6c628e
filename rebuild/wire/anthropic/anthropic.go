// Package anthropic renders requests for the Anthropic Messages API and reads its
// answers. Any HTTP client sends the body that Request of a [Format] returns. Response
// reads a whole answer; NewStream puts a streamed one together from the events of
// [wire.ReadSSE]. Package [wire] reads refusals and documents the rules common to all
// APIs.
package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// Format renders for the Anthropic Messages API and reads its answers. The
// zero value is ready to use: no stream, no thinking. It is a plain value,
// safe for several goroutines.
type Format struct {
	// Stream asks for the answer as server-sent events.
	Stream bool
	// Thinking is the request's member "thinking",
	// {"type":"enabled","budget_tokens":4096} for example. Nil leaves it out,
	// and so leaves it to the model.
	Thinking json.RawMessage
	// Cache puts cache marks on the system prompt, the last tool, the end of the
	// messages and the end of the previous request's messages. Marks of blocks and
	// of Params come first, as only four are allowed. Empty: no marks.
	Cache wire.CacheTTL
	// PlainPrompts leaves later system prompts texts of the user, for services that
	// imitate the API without its messages of role "system".
	PlainPrompts bool
	// Params are further members of the request, temperature or tool_choice
	// for example. "system" and "tools" are used instead of what the request
	// says, for cache marks on them and for tools that the provider runs. The
	// other members that Request writes itself cannot be in it.
	Params map[string]json.RawMessage
}

// Request renders the body of a call to POST /v1/messages. An output limit of 0
// becomes [wire.DefaultMaxOutput].
//
// In addition to the rules of package wire it does this:
//
//   - A later system prompt of a session is a message of role "system" with the
//     models that take it, if one of these made the following answer: in the
//     history it is a text of the user. It stays a text where the API does not take
//     such a message. "[no answer]" replaces an emptied answer after one.
//   - Reasoning of this API returns in its place if [rebuild.Reasoned] leaves it
//     and Thinking is not "disabled". Reasoning of answers without a recorded
//     request returns within the running turn, to the model that made it, if a
//     call follows it or Thinking is on, and never to a model that checks its
//     prefix. Reasoning without its signature is left out, and so is reasoning
//     that would end its message.
//   - If Thinking demands reasoning ("enabled") and the answer that the results
//     belong to no longer begins with any, as after a change of model within a
//     turn, the member "thinking" is left out of this one request.
//   - If Thinking asks for a budget that the output limit does not exceed, the
//     budget becomes three quarters of the limit, or if that is less than 1,024
//     tokens the member is left out.
//   - Results that are errors may have texts only: the rest of them becomes one.
//   - Calls of the provider's own tools return with their results to the model
//     that made them. One without its result is kept only at the end of the
//     request, where the provider is to continue it (pause_turn).
//   - An image of more than 5 MB becomes a short text, and so do the images and
//     documents that come first in a body of more than 32 MB.
//   - Of more than four cache marks the last four stay.
func (a Format) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	body, report, err = a.request(req, messages.MediaBudget{})
	if excess := len(body) - maxBody; excess > 0 {
		return a.request(req, messages.MediaBudget{Bytes: excess})
	}
	return body, report, err
}

// request leaves out as much media.
func (a Format) request(req transcript.Request, media messages.MediaBudget) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(
		format.CheckRoles(req.Messages), format.CheckObject("thinking", a.Thinking), messages.CheckCache(a.Cache),
		format.CheckParams(a.Params, "model", "max_tokens", "stream", "thinking", "messages"),
	); err != nil {
		return nil, nil, err
	}
	if !jsontext.IsNull(a.Thinking) && js.String(a.Thinking, "type") == "" {
		return nil, nil, fmt.Errorf("wire: thinking %q has no type", js.Excerpt(a.Thinking))
	}
	limit := cmp.Or(req.MaxOutput, wire.DefaultMaxOutput)
	r := messages.New(req, format.APIAnthropic)
	r.Media, r.PlainPrompts, r.Optional = media, a.PlainPrompts, optional
	if req.Tools, err = r.Renamed(req.Tools, rebuild.ToolName); err != nil {
		return nil, nil, err
	}
	thinking := r.Ask(a.Thinking, limit)
	rendered := r.Messages(
		func(i int, m transcript.Message) []transcript.Block { return r.UserContent(i, m, r.UserBlocks) },
		func(i int, m transcript.Message) []transcript.Block {
			return r.AnswerContent(i, m, r.ServerPairs(i, m), r.AnswerBlock)
		},
	)
	_, ownSystem := a.Params["system"]
	_, ownTools := a.Params["tools"]
	ownSystem, ownTools = ownSystem || rebuild.IsBlank(req.System), ownTools || len(req.Tools) == 0
	budget := maxMarks - a.marks()
	if a.Cache != "" {
		budget -= messages.Count(!ownSystem) + messages.Count(!ownTools)
		roll(a.Cache, rendered)
	}
	for _, m := range slices.Backward(rendered) {
		budget = limitMarks(&r, m.Content, budget)
	}
	thinking = r.Asked(thinking)

	var system any = js.Opt(r.Req.System)
	if a.Cache != "" && !ownSystem {
		system = js.List([]string{req.System}, func(text string) js.Written {
			return js.Object("type", "text", "text", text, messages.CacheControl, messages.Mark(a.Cache, "ephemeral"))
		})
	}
	return r.Body(
		a.Params, "model", js.Opt(req.Model), "max_tokens", limit, "stream", js.When(a.Stream, "true"), "thinking", thinking,
		"", a.Params, "system", system, "tools", a.tools(req.Tools), "messages", js.List(rendered, messageJSON),
	)
}

// tools returns the tools, the last with a mark if there are marks.
func (a Format) tools(tools []transcript.Tool) js.Written {
	left := len(tools)
	return js.OptList(tools, func(t transcript.Tool) js.Written {
		var mark json.RawMessage
		if left--; left == 0 && a.Cache != "" {
			mark = messages.Mark(a.Cache, "ephemeral")
		}
		return js.Object(append(format.ToolMembers(t, "input_schema", `{"type":"object"}`), messages.CacheControl, mark)...)
	})
}

func messageJSON(m transcript.Message) js.Written {
	text, _ := m.MarshalJSON() // never fails
	return func(dst []byte) []byte { return append(dst, text...) }
}

// optional names the optional members of blocks in the Messages API.
var optional = map[string][]string{
	"text":        {messages.CacheControl, "citations"},
	"image":       {messages.CacheControl},
	"document":    {messages.CacheControl, "citations", "context", "title"},
	"tool_use":    {messages.CacheControl, "caller", messages.ToolsetName},
	"tool_result": {messages.CacheControl},
}

// maxBody is how many bytes of JSON a request to the Messages API may have.
const maxBody = 32 << 20
