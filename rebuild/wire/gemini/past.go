package gemini

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Contents reads a list of contents of generateContent, a request that holds one, or an
// answer, as items to append to a session. It is the inverse of Request of a [Format].
//
// The system instruction becomes a [transcript.System]. A function response answers the
// call with its ID, else the next call of its name. Parts that fit no block become opaque
// blocks, and members of a content become data of the application, see
// [transcript.WithApp]. Package [wire] lists the losses. A place that no item can hold
// gives a [*wire.ItemError].
func Contents(data []byte) ([]transcript.Item, error) {
	var r reader
	return format.ReadPast(data, "contents", Format{}.Response, r.prompt, r.content)
}

// A reader reads contents in order.
type reader struct {
	calls []transcript.ToolCallBlock // of the last answer, without those that have a result
}

func (r *reader) prompt(p *format.Past) error {
	for _, name := range []string{"systemInstruction", "system_instruction"} {
		if system := js.Get(p.Whole, name); !jsontext.IsNull(system) {
			texts, err := r.blocks("/"+name, system)
			if err := cmp.Or(err, p.Prompt("/"+name+"/parts", texts, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) content(p *format.Past, i int, content json.RawMessage) error {
	at := p.At(i)
	switch role := js.String(content, "role"); role {
	case "", "user", "function":
		blocks, err := r.blocks(at, content)
		p.Add(transcript.Message{Role: transcript.RoleUser, Content: blocks}, content, "role", "parts")
		return err
	case "model":
		return r.answer(p, at, content)
	default:
		return format.Bad(at+"/role", "the role %q is not known", role)
	}
}

// answer reads a content, each part as an answer of its own: parts of a stream would be
// joined. Calls get IDs that are made of the ID of the answer.
func (r *reader) answer(p *format.Past, at string, content json.RawMessage) error {
	answer := transcript.Message{Role: transcript.RoleAssistant}
	if !jsontext.IsArray(js.Get(content, "parts")) {
		return format.Bad(at+"/parts", "the parts are not a list")
	}
	for j, part := range js.Elements(js.Get(content, "parts")) {
		at := at + "/parts/" + strconv.Itoa(j)
		if call := js.Get(part, "functionCall"); call != nil && js.String(call, "name") == "" {
			return format.Bad(at, "a call that names no tool")
		}
		candidate := js.Object("content", js.Object("parts", js.List([]json.RawMessage{part}, js.Value)), "finishReason", "STOP")
		resp, err := p.Read(js.Object("responseId", at, "candidates", js.List([]js.Written{candidate}, js.As)).Bytes())
		if err != nil {
			return format.Bad(at, "%v", err)
		}
		answer.Content = append(answer.Content, resp.Message.Content...)
	}
	r.calls = answer.ToolCalls()
	p.Said(format.APIGemini, answer, content, "role", "parts")
	return nil
}

func (r *reader) blocks(at string, content json.RawMessage) ([]transcript.Block, error) {
	parts := js.Get(content, "parts")
	if text, ok := jsontext.String(content); ok { // as SDKs take it
		return format.PlainText(text), nil
	}
	return format.Blocks(at+"/parts", parts, r.part)
}

// part reads a part of a content of the user.
func (r *reader) part(at string, part []byte) (transcript.Block, error) {
	kind, value := "", []byte(nil)
	for kind, value = range jsontext.Members(part) {
		break
	}
	mime := js.String(value, "mimeType")
	switch {
	case len(js.MembersOf(part)) != 1:
	case kind == "text" && jsontext.IsString(value):
		return transcript.TextBlock{Text: js.String(value)}, nil
	case kind == "inlineData" && js.HasOnly(value, "mimeType", "data"):
		return media(transcript.Source{Type: "base64", MediaType: mime, Data: js.String(value, "data")}), nil
	case kind == "fileData" && js.HasOnly(value, "mimeType", "fileUri"):
		return media(transcript.Source{Type: "url", MediaType: mime, URL: js.String(value, "fileUri")}), nil
	case kind == "functionResponse":
		return r.result(at+"/functionResponse", value)
	}
	return transcript.RawBlock{JSON: js.Object("type", format.OpaqueGemini, "part", json.RawMessage(part)).Bytes()}, nil
}

// media returns an image or a document.
func media(s transcript.Source) transcript.Block {
	if slices.Contains(mediaTypes["image"], s.MediaType) {
		return transcript.ImageBlock{Source: s}
	}
	return transcript.DocumentBlock{Source: s}
}

// result reads a function response.
func (r *reader) result(at string, value []byte) (transcript.Block, error) {
	id, name := js.String(value, "id"), js.String(value, "name")
	answers := func(c transcript.ToolCallBlock) bool { return c.ID == id }
	if !slices.ContainsFunc(r.calls, answers) {
		answers = func(c transcript.ToolCallBlock) bool { return c.Name == name }
	}
	result := transcript.ToolResultBlock{CallID: cmp.Or(id, name), Extra: format.Rest(value, "id", "name", "response", "parts")}
	if i := slices.IndexFunc(r.calls, answers); i >= 0 {
		result.CallID = r.calls[i].ID
		r.calls = slices.Delete(r.calls, i, i+1)
	}
	if result.CallID == "" {
		return nil, format.Bad(at, "a response that names no call")
	}
	response := js.Get(value, "response")
	kind, said := "", []byte(nil)
	for kind, said = range jsontext.Members(response) {
		break
	}
	text, isText := jsontext.String(said)
	if !isText || kind != "output" && kind != "error" || len(js.MembersOf(response)) > 1 {
		text, kind = string(response), "" // of another program
	}
	result.IsError = kind == "error"
	var blocks []transcript.Block
	if text != "" {
		blocks = format.PlainText(text)
	}
	if parts := js.Get(value, "parts"); !jsontext.IsNull(parts) {
		more, err := format.Blocks(at+"/parts", parts, r.part)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, more...)
	}
	return result.WithContent(blocks...), nil
}
