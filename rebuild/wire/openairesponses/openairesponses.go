// Package openairesponses renders requests for OpenAI's Responses API and reads its
// answers. Any HTTP client sends the body that Request of a [Format] returns. Response
// reads a whole answer; NewStream puts a streamed one together from the events of
// [wire.ReadSSE]. Package [wire] reads refusals and documents the rules common to all
// APIs.
package openairesponses

import (
	"cmp"
	"encoding/json"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

// Format renders for OpenAI's Responses API and reads its answers. The caller
// stores the conversation, not the provider: every request contains all of it.
// The zero value is ready to use. It is a plain value, safe for several
// goroutines.
type Format struct {
	// Stream asks for the answer as server-sent events.
	Stream bool
	// Reasoning is the request's member "reasoning", {"effort":"medium"} for
	// example. With it, requests ask for encrypted reasoning, which can go
	// back. Nil leaves both out: models that do not reason refuse them.
	Reasoning json.RawMessage
	// With Prefill the model continues an answer at the end. Otherwise a text follows it.
	Prefill bool
	// CacheKey is the member prompt_cache_key, the same for requests that begin in
	// the same way: an ID of the session for example. Empty leaves it out.
	CacheKey string
	// Params are further members of the request, temperature or tool_choice for
	// example. "instructions", "tools", "store" and "include" replace the
	// members that Request writes. The other members that it writes cannot be in
	// it.
	Params map[string]json.RawMessage
}

// Request renders the body of a call to POST /v1/responses. "store" is false.
//
// In addition to the rules of package wire it does this:
//
//   - A later system prompt of a session, which is a text of the user in the history,
//     is a message of role "developer".
//   - The items of an answer go back unchanged to the model that made them,
//     with their IDs, in all turns, so that the end of a turn changes no bytes
//     of a conversation. Other models get texts and calls without IDs.
//   - Reasoning goes back only encrypted (or by its ID, if Params make the
//     provider store answers), only to the model that made it, and only with
//     the next item. If it is left out, later items lose their IDs, or the
//     provider would miss it.
//   - Items of tools that the provider ran, and of unknown types, go back as they
//     came if they are complete.
//   - An image or a document that the API does not take (a file of another
//     provider, another type) becomes a short text; a text document its text; a
//     search result its texts.
//   - Calls of tools that the API defines and the client runs (shell, local_shell,
//     apply_patch, computer) go back unchanged to the model that made them, and
//     their results in the form that each wants; other models see functions.
//   - The API does not mark results that are errors.
func (s Format) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(
		format.CheckRoles(req.Messages), format.CheckObject("reasoning", s.Reasoning),
		format.CheckParams(s.Params, "model", "max_output_tokens", "stream", "reasoning", "input", openai.CacheKey(s.CacheKey)),
	); err != nil {
		return nil, nil, err
	}
	stored, _ := jsontext.Bool(s.Params["store"])
	r := renderer{
		Renderer: openai.Renderer{Talk: format.Talk{Rendering: format.NewRendering(req, format.APIOpenAIResponses, format.IDForm{Prefix: "call_"})}},
		stored:   stored, items: map[string]bool{},
	}
	r.Prefill = s.Prefill
	r.Messages(&r)
	if req.Tools, err = r.Renamed(req.Tools, neutral.ToolName); err != nil {
		return nil, nil, err
	}
	return r.Body(
		s.Params, "model", js.Opt(req.Model), "prompt_cache_key", js.Opt(s.CacheKey), "max_output_tokens", js.Number(req.MaxOutput), "stream", js.When(s.Stream, "true"),
		"store", false, "reasoning", s.Reasoning, "include", js.When(!jsontext.IsNull(s.Reasoning), `["reasoning.encrypted_content"]`),
		"", s.Params, "instructions", js.Opt(r.Req.System), "tools", js.OptList(req.Tools, toolJSON), "input", js.List(r.Out, itemJSON),
	)
}

// toolJSON marks the schema as not strict: the API treats an unmarked schema as
// strict, and refuses most.
func toolJSON(t transcript.Tool) js.Written {
	members := append([]any{"type", "function"}, format.ToolMembers(t, "parameters", openai.NoParameters, "defer_loading")...)
	return js.Object(append(members, "strict", t.Strict)...)
}

func itemJSON(m format.Said) js.Written {
	if m.Items != nil {
		return m.Items[0]
	}
	return js.Object("type", "message", "role", m.Role, "content", openai.Content(m.Parts, partJSON))
}

func partJSON(b transcript.Block) js.Written {
	switch b := b.(type) {
	case transcript.TextBlock:
		return js.Object("type", "input_text", "text", b.Text)
	case transcript.ImageBlock:
		return js.Object("type", "input_image", "detail", "auto", "file_id", js.Opt(b.Source.FileID), "image_url", js.Opt(openai.SourceURL(b.Source)))
	case transcript.DocumentBlock:
		url := "file_url"
		if b.Title != "" {
			url = "file_data"
		}
		return js.Object("type", "input_file", "file_id", js.Opt(b.Source.FileID), "filename", js.Opt(b.Title), url, js.Opt(openai.SourceURL(b.Source)))
	}
	return nil
}
