package openaichat

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Messages reads a list of messages of Chat Completions, a request that holds one, or an
// answer, as items to append to a session. It is the inverse of Request of a [Format].
//
// A message of role system or developer becomes a [transcript.System]. Parts of unknown
// types become opaque blocks, unknown members of a part its Extra, and members of a message
// data of the application, see [transcript.WithApp]. The call of a function, from before
// the API had tools, becomes a tool call, and a message of role function its result. Package
// [wire] lists the losses. A
// place that no item can hold gives a [*wire.ItemError].
func Messages(data []byte) ([]transcript.Item, error) {
	called := map[string]string{}
	return format.ReadPast(data, "messages", Format{}.Response, nil, func(p *format.Past, i int, m json.RawMessage) error {
		m, err := withoutFunctions(p.At(i), i, m, called)
		if err != nil {
			return err
		}
		return readMessage(p, p.At(i), m)
	})
}

// withoutFunctions returns a message in which a call of a function is a tool call. The API
// had functions before it had tools: they have no IDs, and a result names the function.
// called maps the functions without a result to the IDs that their calls got.
func withoutFunctions(at string, i int, m json.RawMessage, called map[string]string) (json.RawMessage, error) {
	members := js.MembersOf(m)
	switch name := js.String(m, "function_call", "name"); {
	case js.String(m, "role") == "function":
		id := called[js.String(m, "name")]
		if id == "" {
			return nil, format.Bad(at+"/role", "a result of a function that no message before it calls")
		}
		delete(called, js.String(m, "name"))
		members.Set("role", js.Value(jsontext.AppendString(nil, "tool")).Bytes())
		members.Set("tool_call_id", jsontext.AppendString(nil, id))
		return js.Object("", js.Without(members.Object(), "name")).Bytes(), nil
	case name != "" && len(js.Elements(js.Get(m, "tool_calls"))) == 0:
		called[name] = "function_call_" + strconv.Itoa(i)
		call := js.Object("id", called[name], "type", functionCall, functionCall, js.Get(m, "function_call"))
		members.Set("tool_calls", js.List([]js.Written{call}, js.As).Bytes())
		return js.Object("", js.Without(members.Object(), "function_call")).Bytes(), nil
	}
	return m, nil
}

func readMessage(p *format.Past, at string, m json.RawMessage) error {
	content, hasContent := jsontext.Member(m, "content")
	read := func() ([]transcript.Block, error) { return format.Blocks(at+"/content", content, readPart) }
	switch role := js.String(m, "role"); role {
	case "system", "developer":
		texts, err := read()
		return cmp.Or(err, p.Prompt(at+"/content", texts, m, "role", "content"))
	case "user":
		blocks, err := read()
		p.Add(transcript.Message{Role: transcript.RoleUser, Content: blocks}, m, "role", "content")
		return err
	case "tool":
		id := js.String(m, "tool_call_id")
		if id == "" {
			return format.Bad(at, "a result without tool_call_id")
		}
		if jsontext.IsNull(content) {
			content = []byte("[]")
		}
		blocks, err := read()
		result := transcript.ToolResultBlock{CallID: id}.WithContent(blocks...)
		p.Add(transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{result}}, m, "role", "content", "tool_call_id")
		return err
	case "assistant":
		if hasContent && jsontext.IsArray(content) {
			for i, part := range js.Elements(content) {
				if kind := js.String(part, "type"); kind != "text" && kind != reasoningChunks {
					return format.Bad(at+"/content/"+strconv.Itoa(i), "an answer with a part of type %q", kind)
				}
			}
		}
		for i, call := range js.Elements(js.Get(m, "tool_calls")) {
			if js.String(call, functionCall, "name")+js.String(call, customCall, "name") == "" {
				return format.Bad(at+"/tool_calls/"+strconv.Itoa(i), "a call that names no tool")
			}
		}
		choice := js.Object("message", m, "finish_reason", "stop")
		return p.Answer(at, js.Object("choices", js.List([]js.Written{choice}, js.As)), m, "role", "content", "refusal", "audio",
			reasoningContent, reasoningPlain, reasoningDetails, "annotations", "tool_calls")
	default:
		return format.Bad(at+"/role", "the role %q is not known", role)
	}
}

func readPart(at string, part []byte) (transcript.Block, error) {
	rest := func(inner string, known ...string) transcript.Extra {
		extra := format.Rest(part, "type", inner)
		for name, value := range format.Rest(js.Get(part, inner), known...) {
			extra = format.WithMember(extra, name, value)
		}
		return extra
	}
	switch js.String(part, "type") {
	case "text":
		return transcript.TextBlock{Text: js.String(part, "text"), Extra: rest("text")}, nil
	case "image_url":
		if url := js.String(part, "image_url", "url"); url != "" {
			return transcript.ImageBlock{Source: format.URLSource(url), Extra: rest("image_url", "url")}, nil
		}
	case "file":
		b := transcript.DocumentBlock{Title: js.String(part, "file", "filename"), Extra: rest("file", "filename", "file_data", "file_id")}
		if id := js.String(part, "file", "file_id"); id != "" {
			b.Source = transcript.Source{Type: "file", FileID: id}
			return b, nil
		} else if data := js.String(part, "file", "file_data"); data != "" {
			b.Source = format.URLSource(data)
			return b, nil
		}
	}
	return format.Typed(at, part)
}
