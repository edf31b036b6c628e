package openaichat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

// NewStream returns a stream for an answer. Choices other than the first are ignored.
// Some servers end their stream at the finish reason, without [DONE].
func (c Format) NewStream() wire.Stream { return c.stream() }

func (c Format) stream() *format.Stream {
	return format.NewStream(&stream{Accumulator: format.Accumulator{API: format.APIOpenAIChat}})
}

func (a *stream) Add(event []byte) (wire.Delta, error) {
	if a.Over {
		return wire.Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", js.Excerpt(event))
	}
	usage, err := format.UsageOf(event, "usage")
	if err != nil {
		return wire.Delta{}, err
	}
	d, err := a.choices(event)
	if err != nil {
		return wire.Delta{}, err
	}
	a.MergeUsage(usage)
	a.ID = cmp.Or(a.ID, js.String(event, "id"))
	a.Model = cmp.Or(js.String(event, "model"), a.Model)
	return d, nil
}

// choices adds the first choice of an event.
func (a *stream) choices(event []byte) (d wire.Delta, err error) {
	for choice := range jsontext.Elements(js.Get(event, "choices")) {
		if n, ok := jsontext.Int(js.Get(choice, "index")); ok && n != 0 {
			continue
		}
		if err := a.read(js.Get(choice, "delta"), &d); err != nil {
			return wire.Delta{}, err
		}
		if reason := js.String(choice, "finish_reason"); reason != "" {
			a.Reason, a.Done = reason, true
		}
	}
	return d, nil
}

// Response reads the body of an answer that was not streamed: its first choice.
// A refusal and reasoning become blocks that go back as they came. Usage.Input
// is the prompt without its cached tokens; Usage.Extra holds further counts,
// for example of reasoning in completion_tokens_details. RequestID is the ID of
// the completion, not the one in the HTTP header. An error body gives an
// [*wire.APIError] without a status.
func (c Format) Response(body []byte) (*transcript.Response, error) {
	return c.stream().Whole(body)
}

// A stream is an answer, whole or partial. said holds its texts and its
// reasoning, by their members; the pieces are calls.
type stream struct {
	format.Accumulator
	said       format.Piece
	details    []json.RawMessage // of reasoning
	annotation []json.RawMessage
	audio      js.Members // spoken audio, without its transcript and its bytes
}

func (a *stream) Whole(body []byte) error {
	for choice := range jsontext.Elements(js.Get(body, "choices")) {
		message := js.Get(choice, "message")
		if !jsontext.IsObject(message) {
			break
		}
		a.Model, a.ID = js.String(body, "model"), js.String(body, "id")
		a.Reason, a.Done = js.String(choice, "finish_reason"), true
		if err := a.AddUsage(body, "usage"); err != nil {
			return err
		}
		return a.read(message, new(wire.Delta))
	}
	return fmt.Errorf("wire: the answer lacks a message: %q", js.Excerpt(body))
}

// The kinds of calls. The input of a custom tool is a text.
const (
	functionCall = "function"
	customCall   = "custom"
)

// read adds a message, or a piece of one, to the answer and to d.
func (a *stream) read(message []byte, d *wire.Delta) error {
	if err := format.CheckAnswer(message); err != nil {
		return err
	}
	switch content := js.Get(message, "content"); {
	case jsontext.IsString(content):
		a.say("content", js.String(content), &d.Text)
	case jsontext.IsArray(content): // of some imitators
		for e := range jsontext.Elements(content) {
			for c := range jsontext.Elements(js.Get(e, reasoningChunks)) {
				a.think(reasoningChunks, js.String(c, "text"), d)
			}
			a.say("content", js.String(e, "text"), &d.Text)
		}
	case !jsontext.IsNull(content):
		return fmt.Errorf("wire: the answer has content that is not a text: %q", js.Excerpt(content))
	}
	a.say("refusal", js.String(message, "refusal"), &d.Text)
	for name, value := range jsontext.Members(js.Get(message, "audio")) {
		switch text, ok := jsontext.String(value); {
		case ok && name == "transcript":
			a.say(name, text, &d.Text)
		case ok && name == "data":
			a.said.Grow(name, 0, text)
		case !jsontext.IsNull(value) && name != "transcript" && name != "data":
			a.audio.Set(name, slices.Clone(value))
		}
	}
	for _, name := range []string{reasoningContent, reasoningPlain} {
		if text, ok := jsontext.String(js.Get(message, name)); ok {
			a.think(name, text, d)
		}
	}
	a.details = append(a.details, js.Elements(js.Get(message, reasoningDetails))...)
	a.annotation = append(a.annotation, js.Elements(js.Get(message, "annotations"))...)
	for e := range jsontext.Elements(js.Get(message, "tool_calls")) {
		a.readCall(e, d)
	}
	return nil
}

// say adds to a text of the answer, and to the delta.
func (a *stream) say(name, text string, shown *string) {
	a.said.Grow(name, 0, text)
	*shown += text
}

// think adds to the reasoning, once if an imitator sends it in two members.
func (a *stream) think(name, text string, d *wire.Delta) {
	if a.member() == "" || a.member() == name {
		a.say(name, text, &d.Thinking)
	}
}

// member returns the member that reasoning came in.
func (a *stream) member() string {
	for _, name := range []string{reasoningContent, reasoningPlain, reasoningChunks} {
		if a.said.Has(name) {
			return name
		}
	}
	return ""
}

// readCall adds a call or a piece of one. Some imitators send no index, or the
// same for all calls: then a new ID begins a new call.
func (a *stream) readCall(e []byte, d *wire.Delta) {
	id, n := js.String(e, "id"), len(a.Pieces)
	p, index, ok := a.At(e, "index")
	if !ok {
		index = int64(n)
		if n > 0 && (id == "" || id == a.Pieces[n-1].Text("id")) {
			p = a.Pieces[n-1]
		}
	}
	if p != nil && id != "" && p.Text("id") != "" && p.Text("id") != id {
		p = nil
	}
	f, isFunction := jsontext.Member(e, functionCall)
	member, kind := "arguments", functionCall
	if custom, ok := jsontext.Member(e, customCall); ok && !isFunction {
		f, member, kind = custom, "input", customCall
	}
	name := js.String(f, "name")
	if p == nil {
		p = a.Begin(index, kind, nil)
		d.ToolName = name
	}
	if kind == customCall {
		p.Kind = kind
	}
	for name, value := range map[string]string{"id": id, "name": name} {
		if p.Text(name) == "" {
			p.Grow(name, 0, value)
		}
	}
	raw := js.Get(f, member)
	input, ok := jsontext.String(raw)
	if !ok && jsontext.IsObject(raw) {
		input = string(raw) // some imitators do not quote it
	}
	p.Grow("input", 0, input)
	d.Input = input
}

func (*stream) ReadUsage(counts json.RawMessage) transcript.Usage {
	return openai.Usage(counts, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
}

func (a *stream) Content() (blocks []transcript.Block) {
	add := func(b transcript.Block) { blocks = append(blocks, b) }
	text, refusal, member := a.said.Text("content"), a.said.Text("refusal"), a.member()
	reasoning := a.said.Text(member)
	if reasoning != "" || len(a.details) > 0 {
		extra := format.WithExt("member", js.Opt(member), reasoningDetails, js.OptList(a.details, js.Value))
		add(transcript.ThinkingBlock{Thinking: reasoning, Extra: extra})
	}
	if text != "" {
		add(transcript.TextBlock{Text: text, Extra: format.WithExt("annotations", js.OptList(a.annotation, js.Value))})
	}
	if len(a.audio) > 0 {
		audio := slices.Clone(a.audio)
		if data := a.said.Text("data"); data != "" {
			audio.Set("data", jsontext.AppendString(nil, data))
		}
		add(transcript.TextBlock{Text: a.said.Text("transcript"), Extra: format.WithExt("audio", audio.Object())})
	}
	if refusal != "" {
		add(transcript.TextBlock{Text: refusal, Extra: format.WithExt("refusal", true)})
	}
	for _, p := range a.Pieces {
		b := transcript.ToolCallBlock{ID: p.Text("id"), Name: p.Text("name"), Input: format.CallInput(p.Text("input"), a.Done)}
		if p.Kind == customCall {
			b.Input = js.Object("input", p.Text("input")).Bytes()
		}
		add(b)
	}
	return blocks
}
