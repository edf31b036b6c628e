package openairesponses

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Items reads a list of items of the Responses API, a request that holds one as its input,
// or an answer, as items to append to a session. It is the inverse of Request of a
// [Format].
//
// The instructions, and a message of role system or developer, become a
// [transcript.System]. Items up to the next one of the client are one answer. Items and
// parts of unknown types become opaque blocks, unknown members of a part its Extra, and
// members of a message or a result data of the application, see [transcript.WithApp].
// Package [wire] lists the losses. A place that no item can hold, such as a reference to
// items that the provider stores, gives a [*wire.ItemError].
func Items(data []byte) ([]transcript.Item, error) {
	whole := jsontext.Trim(data)
	if input := js.Get(whole, "input"); jsontext.IsString(input) && jsontext.Valid(whole) {
		message := js.Object("role", "user", "content", js.String(input))
		whole = js.Object("input", js.List([]js.Written{message}, js.As), "", js.Without(whole, "input")).Bytes()
	}
	for _, elsewhere := range []string{"previous_response_id", "conversation", "prompt"} {
		if !jsontext.IsNull(js.Get(whole, elsewhere)) && jsontext.Valid(whole) {
			return nil, format.Bad("/"+elsewhere, "a part of the conversation is stored by the provider")
		}
	}
	r := reader{kinds: map[string]string{}}
	return format.ReadPast(whole, "input", Format{}.Response, format.SystemPrompt("instructions", readPart), r.item)
}

// A reader reads items in order.
type reader struct {
	answer []json.RawMessage // items of an answer that is not complete
	kinds  map[string]string // of calls by ID
}

func (r *reader) item(p *format.Past, i int, it json.RawMessage) (err error) {
	at, role := p.At(i), js.String(it, "role")
	kind := cmp.Or(js.String(it, "type"), map[bool]string{true: "message"}[role != ""])
	switch {
	case kind == "":
		return format.Bad(at, "an item without a type")
	case kind == "item_reference":
		return format.Bad(at, "the item is stored by the provider")
	case kind == "message" && role == "assistant":
		it, err = readAnswer(at, it)
		r.answer = append(r.answer, it)
	case kind == "message":
		err = cmp.Or(r.flush(p, at), readMessage(p, at, role, it))
	case strings.HasSuffix(kind, "_call_output"):
		err = cmp.Or(r.flush(p, at), readOutput(p, at, strings.TrimSuffix(kind, "_output"), r.kinds, it))
	default:
		if clientCalls[kind] != "" || kind == "function_call" || kind == customCall {
			r.kinds[cmp.Or(js.String(it, "call_id"), js.String(it, "id"))] = kind
		}
		r.answer = append(r.answer, it)
	}
	if err == nil && i == len(p.List)-1 {
		err = r.flush(p, p.At(i+1))
	}
	return err
}

// flush adds the items of an answer as one answer.
func (r *reader) flush(p *format.Past, at string) error {
	if len(r.answer) == 0 {
		return nil
	}
	output := js.Object("output", js.List(r.answer, js.Value))
	r.answer = nil
	return p.Answer(at, output, nil)
}

// readAnswer returns a message of an answer with a list of parts as its content.
func readAnswer(at string, it json.RawMessage) (json.RawMessage, error) {
	content := js.Get(it, "content")
	if text, ok := jsontext.String(content); ok {
		part := js.Object("type", "output_text", "text", text)
		return js.Object("type", "message", "role", "assistant", "content", js.List([]js.Written{part}, js.As), "", js.Without(it, "type", "role", "content")).Bytes(), nil
	}
	if !jsontext.IsArray(content) {
		return nil, format.Bad(at+"/content", "the content is neither a text nor a list")
	}
	for i, part := range js.Elements(content) {
		if js.String(part, "type") == "" {
			return nil, format.Bad(at+"/content/"+strconv.Itoa(i), "it lacks a type")
		}
	}
	return js.Object("type", "message", "", js.Without(it, "type")).Bytes(), nil
}

func readMessage(p *format.Past, at, role string, it json.RawMessage) error {
	blocks, err := format.Blocks(at+"/content", js.Get(it, "content"), readPart)
	if err != nil {
		return err
	}
	switch role {
	case "system", "developer":
		return p.Prompt(at+"/content", blocks, it, "type", "role", "content")
	case "user":
		p.Add(transcript.Message{Role: transcript.RoleUser, Content: blocks}, it, "type", "role", "content")
		return nil
	}
	return format.Bad(at+"/role", "the role %q is not known", role)
}

// readOutput reads the result of a call, in the form of its kind.
func readOutput(p *format.Past, at, kind string, kinds map[string]string, it json.RawMessage) (err error) {
	id, output := cmp.Or(js.String(it, "call_id"), js.String(it, "id")), js.Get(it, "output")
	if id == "" {
		return format.Bad(at, "an output without call_id")
	}
	result := transcript.ToolResultBlock{CallID: id}
	known := []string{"type", "call_id", "output"}
	switch {
	case kind == "local_shell_call":
		known = append(known, "id")
		fallthrough
	case jsontext.IsString(output):
		result = result.WithContent(format.PlainText(js.String(output))...)
	case kind == "shell_call":
		result = result.WithContent(format.PlainText(string(output))...)
	case kind == "computer_call":
		output = js.List([]js.Written{js.Object("type", "input_image", "", js.Without(output, "type"))}, js.As).Bytes()
		fallthrough
	case !jsontext.IsNull(output):
		var blocks []transcript.Block
		blocks, err = format.Blocks(at+"/output", output, readPart)
		result = result.WithContent(blocks...)
	}
	if kind == "apply_patch_call" {
		result.IsError = js.String(it, "status") == "failed"
		known = append(known, "status")
	}
	p.Add(transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{result}}, it, known...)
	return err
}

func readPart(at string, part []byte) (transcript.Block, error) {
	rest := func(known ...string) transcript.Extra {
		extra := format.Rest(part, slices.Concat(known, []string{"type"})...)
		if string(extra["detail"]) == `"auto"` {
			delete(extra, "detail") // the default
		}
		return extra
	}
	source := func(names ...string) (s transcript.Source) {
		if id := js.String(part, "file_id"); id != "" {
			return transcript.Source{Type: "file", FileID: id}
		}
		for _, name := range names {
			if url := js.String(part, name); url != "" {
				return format.URLSource(url)
			}
		}
		return s
	}
	switch js.String(part, "type") {
	case "input_text", "output_text", "text":
		return transcript.TextBlock{Text: js.String(part, "text"), Extra: rest("text")}, nil
	case "input_image":
		if s := source("image_url"); s.Type != "" {
			return transcript.ImageBlock{Source: s, Extra: rest("image_url", "file_id")}, nil
		}
	case "input_file":
		if s := source("file_data", "file_url"); s.Type != "" {
			return transcript.DocumentBlock{Source: s, Title: js.String(part, "filename"), Extra: rest("file_data", "file_url", "file_id", "filename")}, nil
		}
	}
	return format.Typed(at, part)
}
