package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// DefaultMaxOutput is the output limit in tokens of a request that names none,
// for the APIs that need one.
const DefaultMaxOutput = 8192

// apiAnthropic is what [transcript.Response] and [transcript.Origin] call the
// Messages API.
const apiAnthropic = "anthropic"

// Anthropic renders for the Anthropic Messages API and reads its answers. The
// zero value is ready to use: no stream, no thinking. It is a plain value,
// safe for several goroutines.
type Anthropic struct {
	// Stream asks for the answer as server-sent events.
	Stream bool
	// Thinking is the request's member "thinking",
	// {"type":"enabled","budget_tokens":4096} for example. Nil leaves it out,
	// and so leaves it to the model.
	Thinking json.RawMessage
	// Cache puts cache marks on the system prompt, the last tool, the end of the
	// messages and the end of those of the request before. Marks that blocks have
	// themselves take what is left of the four; those in Params count too. Empty: no
	// marks.
	Cache CacheTTL
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
// becomes [DefaultMaxOutput].
//
// Beyond what every format does, see the package, it sees to this:
//
//   - A later system prompt of a session is a message of role "system" with the
//     models that take it, if the answer behind it was made by one of these: in the
//     history it is a text of the user. It stays that where the API does not take
//     such a message. "[no answer]" stands behind one for an answer that nothing is
//     left of.
//   - Reasoning of this API is given back in its place if [rebuild.Reasoned]
//     leaves it and Thinking is not "disabled". That of answers which do not say
//     what they were made from is given back within the running turn, to the
//     model that made it, if a call follows it or Thinking is on, and never to a
//     model that checks what stands in front of it. Reasoning without its
//     signature is left out, and so is reasoning that would end its message.
//   - If Thinking demands reasoning ("enabled") and the answer that the results
//     belong to no longer begins with any, as after a change of model within a
//     turn, the member "thinking" is left out of this one request.
//   - If Thinking asks for a budget that the output limit does not exceed, the
//     budget becomes three quarters of the limit, or if that is less than 1,024
//     tokens the member is left out.
//   - Results that are errors may have texts only: the rest of them becomes one.
//   - Calls of the provider's own tools are given back with their results to
//     the model that made them. One without its result is kept only at the end
//     of the request, where the provider is to continue it (pause_turn).
//   - An image of more than 5 MB becomes a short text, and so do the images and
//     documents that come first in a body of more than 32 MB.
//   - Of more than four cache marks the last four stay.
func (a Anthropic) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	body, report, err = a.request(req, mediaBudget{})
	if excess := len(body) - maxBody; excess > 0 {
		return a.request(req, mediaBudget{bytes: excess})
	}
	return body, report, err
}

// request leaves out as much media.
func (a Anthropic) request(req transcript.Request, media mediaBudget) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(
		checkRoles(req.Messages), checkObject("thinking", a.Thinking), checkCache(a.Cache),
		checkParams(a.Params, "model", "max_tokens", "stream", "thinking", "messages"),
	); err != nil {
		return nil, nil, err
	}
	if !jsontext.IsNull(a.Thinking) && stringMember(a.Thinking, "type") == "" {
		return nil, nil, fmt.Errorf("wire: thinking %q has no type", excerpt(a.Thinking))
	}
	limit := cmp.Or(req.MaxOutput, DefaultMaxOutput)
	r := newRenderer(req, apiAnthropic)
	r.media, r.plainPrompts, r.optional = media, a.PlainPrompts, optional
	thinking := r.ask(a.Thinking, limit)
	messages := r.messages(
		func(i int, m transcript.Message) []transcript.Block { return r.userContent(i, m, r.userBlocks) },
		func(i int, m transcript.Message) []transcript.Block {
			return r.answerContent(i, m, r.serverPairs(i, m), r.answerBlock)
		},
	)
	_, ownSystem := a.Params["system"]
	_, ownTools := a.Params["tools"]
	ownSystem, ownTools = ownSystem || rebuild.IsBlank(req.System), ownTools || len(req.Tools) == 0
	budget := maxMarks - a.marks()
	if a.Cache != "" {
		budget -= count(!ownSystem) + count(!ownTools)
		roll(a.Cache, messages)
	}
	for _, m := range slices.Backward(messages) {
		budget = limitMarks(&r, m.Content, budget)
	}
	thinking = r.asked(thinking)

	var system any = opt(r.req.System)
	if a.Cache != "" && !ownSystem {
		system = list([]string{req.System}, func(text string) written {
			return object("type", "text", "text", text, cacheControl, cacheMark(a.Cache, "ephemeral"))
		})
	}
	return r.request(
		a.Params, "model", opt(req.Model), "max_tokens", limit, "stream", when(a.Stream, "true"), "thinking", thinking,
		"", a.Params, "system", system, "tools", a.tools(req.Tools), "messages", list(messages, messageJSON),
	)
}

// marks counts the cache marks in Params: they count against the same limit.
func (a Anthropic) marks() int {
	n := count(!jsontext.IsNull(a.Params[cacheControl]))
	for _, e := range slices.Concat(elements(a.Params["system"]), elements(a.Params["tools"])) {
		n += count(!jsontext.IsNull(get(e, cacheControl)))
	}
	return n
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tools returns the tools, the last with a mark if there are marks.
func (a Anthropic) tools(tools []transcript.Tool) written {
	left := len(tools)
	return optList(tools, func(t transcript.Tool) written {
		var mark json.RawMessage
		if left--; left == 0 && a.Cache != "" {
			mark = cacheMark(a.Cache, "ephemeral")
		}
		return object(append(toolMembers(t, "input_schema", `{"type":"object"}`), cacheControl, mark)...)
	})
}

func messageJSON(m transcript.Message) written {
	text, _ := m.MarshalJSON() // never fails
	return func(dst []byte) []byte { return append(dst, text...) }
}
