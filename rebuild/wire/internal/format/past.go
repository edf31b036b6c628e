package format

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// A Past is a conversation that is read from the JSON of an API, the inverse of rendering.
type Past struct {
	Whole []byte // the object that holds the list; nil if the list came alone
	List  []json.RawMessage
	Items []transcript.Item
	Read  func(answer []byte) (*transcript.Response, error) // of the API
	at    string                                            // pointer to the list
}

// ReadPast reads the list in data, which is data itself or a member of that name: first
// the prompt that comes with the list, if prompt is not nil, and then each message. An
// answer of a model is a conversation of one item.
func ReadPast(data []byte, name string, read func(answer []byte) (*transcript.Response, error), prompt func(*Past) error, message func(p *Past, i int, m json.RawMessage) error) ([]transcript.Item, error) {
	data = jsontext.Trim(data)
	if !jsontext.Valid(data) {
		return nil, Bad("", "it is not JSON")
	}
	p := &Past{Read: read}
	list, ok := jsontext.Member(data, name)
	switch {
	case jsontext.IsArray(data):
		p.List = js.Elements(data)
	case !jsontext.IsObject(data):
		return nil, Bad("", "it is not a list or an object")
	case jsontext.IsArray(list):
		p.Whole, p.at, p.List = data, "/"+name, js.Elements(list)
	default:
		if resp, err := read(data); err == nil && !ok {
			return []transcript.Item{*resp}, nil
		}
		return nil, Bad("/"+name, "there is no list of this name")
	}
	var err error
	if prompt != nil {
		err = prompt(p)
	}
	for i := 0; err == nil && i < len(p.List); i++ {
		err = message(p, i, p.List[i])
	}
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// SystemPrompt reads the system prompt in a member of the whole, if there is one.
func SystemPrompt(name string, part func(at string, part []byte) (transcript.Block, error)) func(*Past) error {
	return func(p *Past) error {
		prompt := js.Get(p.Whole, name)
		if jsontext.IsNull(prompt) {
			return nil
		}
		texts, err := Blocks("/"+name, prompt, part)
		return cmp.Or(err, p.Prompt("/"+name, texts, nil))
	}
}

// Bad returns an error about a place.
func Bad(pointer, reason string, args ...any) error {
	return &wire.ItemError{Pointer: pointer, Reason: fmt.Sprintf(reason, args...)}
}

// At returns the pointer to element i of the list.
func (p *Past) At(i int) string { return p.at + "/" + strconv.Itoa(i) }

// Add adds an item, with the members of the message that are not among known as data of
// the application.
func (p *Past) Add(item transcript.Item, message []byte, known ...string) {
	if rest := Rest(message, known...); len(rest) > 0 {
		item = transcript.WithApp(item, js.Object("", map[string]json.RawMessage(rest)).Bytes())
	}
	p.Items = append(p.Items, item)
}

// Answer adds an answer, in the JSON that the API answers with.
func (p *Past) Answer(at string, answer js.Written, message []byte, known ...string) error {
	resp, err := p.Read(answer.Bytes())
	if err != nil {
		return Bad(at, "%v", err)
	}
	p.Said(resp.API, resp.Message, message, known...)
	return nil
}

// Said adds an answer with its blocks.
func (p *Past) Said(api string, answer transcript.Message, message []byte, known ...string) {
	stop := transcript.StopEndTurn
	if HasCalls(answer.Content) {
		stop = transcript.StopToolUse
	}
	p.Add(transcript.Response{Message: answer, API: api, Model: js.String(p.Whole, "model"), StopReason: stop}, message, known...)
}

// Prompt adds a system prompt: texts of a message whose role only instructions have. A
// rendered prompt begins with the heading of a later one.
func (p *Past) Prompt(at string, texts []transcript.Block, message []byte, known ...string) error {
	var plain []string
	for i, b := range texts {
		t, ok := b.(transcript.TextBlock)
		if !ok {
			return Bad(at+"/"+strconv.Itoa(i), "a system prompt has only texts")
		}
		if later, ok := strings.CutPrefix(t.Text, neutral.PromptHeading+"\n"); ok {
			p.Add(transcript.System{Text: later}, message, known...)
		} else if names, ok := strings.CutPrefix(t.Text, neutral.ToolsHeading+"\n"); ok {
			tools := transcript.Tools{Names: strings.Split(names, ", ")}
			if names == "none" {
				tools.Names = nil
			}
			p.Add(tools, message, known...)
		} else {
			plain = append(plain, t.Text)
		}
	}
	if text := strings.Join(plain, "\n\n"); text != "" {
		p.Add(transcript.System{Text: text}, message, known...)
	}
	return nil
}

// Rest returns the members of an object that are not among known and not null.
func Rest(obj []byte, known ...string) (rest transcript.Extra) {
	for _, m := range js.Without(obj, known...) {
		if !jsontext.IsNull(m.Value) {
			rest = WithMember(rest, m.Name, m.Value)
		}
	}
	return rest
}

// Blocks reads a content: a text, or a list of parts. Part returns nil for a part that is
// left out.
func Blocks(at string, content []byte, part func(at string, part []byte) (transcript.Block, error)) (blocks []transcript.Block, err error) {
	content = jsontext.Trim(content)
	if text, ok := jsontext.String(content); ok {
		return PlainText(text), nil
	}
	if !jsontext.IsArray(content) {
		return nil, Bad(at, "the content is neither a text nor a list")
	}
	for i, e := range js.Elements(content) {
		at := at + "/" + strconv.Itoa(i)
		if !jsontext.IsObject(e) {
			return nil, Bad(at, "it is not an object")
		}
		b, err := part(at, e)
		if err != nil {
			return nil, err
		}
		if b != nil {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// URLSource returns the source at a URL, or in a data URL.
func URLSource(url string) transcript.Source {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if media, data, ok := strings.Cut(rest, ";base64,"); ok {
			return transcript.Source{Type: "base64", MediaType: media, Data: data}
		}
	}
	return transcript.Source{Type: "url", URL: url}
}

// Typed returns a part as an opaque block, if it has a type.
func Typed(at string, part []byte) (transcript.Block, error) {
	if js.String(part, "type") == "" {
		return nil, Bad(at, "it lacks a type")
	}
	return transcript.RawBlock{JSON: slices.Clone(part)}, nil
}
