package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// NewStream returns a stream for an answer. Choices other than the first are ignored.
// Some servers end their stream at the finish reason, without [DONE].
func (c OpenAIChat) NewStream() Stream { return c.stream() }

func (c OpenAIChat) stream() *streamer {
	return newStream(&chatAnswer{accumulator: accumulator{api: apiOpenAIChat}})
}

func (a *chatAnswer) add(event []byte) (Delta, error) {
	if a.over {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt(event))
	}
	usage, err := usageOf(event, "usage")
	if err != nil {
		return Delta{}, err
	}
	d, err := a.choices(event)
	if err != nil {
		return Delta{}, err
	}
	a.mergeUsage(usage)
	a.id = cmp.Or(a.id, stringMember(event, "id"))
	a.model = cmp.Or(stringMember(event, "model"), a.model)
	return d, nil
}

// choices adds the first choice of an event.
func (a *chatAnswer) choices(event []byte) (d Delta, err error) {
	for choice := range jsontext.Elements(get(event, "choices")) {
		if n, ok := jsontext.Int(get(choice, "index")); ok && n != 0 {
			continue
		}
		if err := a.read(get(choice, "delta"), &d); err != nil {
			return Delta{}, err
		}
		if reason := stringMember(choice, "finish_reason"); reason != "" {
			a.reason, a.done = reason, true
		}
	}
	return d, nil
}

// Response reads the body of an answer that was not streamed: its first choice.
// A refusal and reasoning become blocks that go back as they came. Usage.Input
// is the prompt without its cached tokens; Usage.Extra has the counts that are
// no field, those of reasoning in completion_tokens_details. RequestID is the
// ID of the completion, not the one in the HTTP header. An error body gives an
// [*APIError] without a status.
func (c OpenAIChat) Response(body []byte) (*transcript.Response, error) {
	return c.stream().whole(body)
}

// A chatAnswer is an answer, whole or as far as it came. The texts and the reasoning
// are in said, by the members that they came in; the pieces are calls.
type chatAnswer struct {
	accumulator
	said       piece
	details    []json.RawMessage // of reasoning
	annotation []json.RawMessage
	audio      members // what was said aloud, but for its transcript and its bytes
}

func (a *chatAnswer) whole(body []byte) error {
	for choice := range jsontext.Elements(get(body, "choices")) {
		message := get(choice, "message")
		if !jsontext.IsObject(message) {
			break
		}
		a.model, a.id = stringMember(body, "model"), stringMember(body, "id")
		a.reason, a.done = stringMember(choice, "finish_reason"), true
		if err := a.addUsage(body, "usage"); err != nil {
			return err
		}
		return a.read(message, new(Delta))
	}
	return fmt.Errorf("wire: the answer has no message: %q", excerpt(body))
}

// The kinds of calls. A custom tool has a text as its input.
const (
	chatFunction = "function"
	chatCustom   = "custom"
)

// read takes what a message, or a piece of one, adds to the answer, and to d.
func (a *chatAnswer) read(message []byte, d *Delta) error {
	if err := checkAnswer(message); err != nil {
		return err
	}
	switch content := get(message, "content"); {
	case jsontext.IsString(content):
		a.say("content", stringMember(content), &d.Text)
	case jsontext.IsArray(content): // of some imitators
		for e := range jsontext.Elements(content) {
			for c := range jsontext.Elements(get(e, reasoningChunks)) {
				a.think(reasoningChunks, stringMember(c, "text"), d)
			}
			a.say("content", stringMember(e, "text"), &d.Text)
		}
	case !jsontext.IsNull(content):
		return fmt.Errorf("wire: the answer has content that is no text: %q", excerpt(content))
	}
	a.say("refusal", stringMember(message, "refusal"), &d.Text)
	for name, value := range jsontext.Members(get(message, "audio")) {
		switch text, ok := jsontext.String(value); {
		case ok && name == "transcript":
			a.say(name, text, &d.Text)
		case ok && name == "data":
			a.said.grow(name, 0, text)
		case !jsontext.IsNull(value) && name != "transcript" && name != "data":
			a.audio.set(name, slices.Clone(value))
		}
	}
	for _, name := range []string{reasoningContent, reasoningPlain} {
		if text, ok := jsontext.String(get(message, name)); ok {
			a.think(name, text, d)
		}
	}
	a.details = append(a.details, elements(get(message, reasoningDetails))...)
	a.annotation = append(a.annotation, elements(get(message, "annotations"))...)
	for e := range jsontext.Elements(get(message, "tool_calls")) {
		a.readCall(e, d)
	}
	return nil
}

// say adds to a text of the answer, and to what is shown of it.
func (a *chatAnswer) say(name, text string, shown *string) {
	a.said.grow(name, 0, text)
	*shown += text
}

// think adds to the reasoning: some imitators say it twice, in two members.
func (a *chatAnswer) think(name, text string, d *Delta) {
	if a.member() == "" || a.member() == name {
		a.say(name, text, &d.Thinking)
	}
}

// member returns the member that reasoning came in.
func (a *chatAnswer) member() string {
	for _, name := range []string{reasoningContent, reasoningPlain, reasoningChunks} {
		if a.said.has(name) {
			return name
		}
	}
	return ""
}

// readCall adds a call or a piece of one. Some imitators have no index, or the
// same for all calls: an ID that the call does not have begins another.
func (a *chatAnswer) readCall(e []byte, d *Delta) {
	id, n := stringMember(e, "id"), len(a.pieces)
	p, index, ok := a.at(e, "index")
	if !ok {
		index = int64(n)
		if n > 0 && (id == "" || id == a.pieces[n-1].text("id")) {
			p = a.pieces[n-1]
		}
	}
	if p != nil && id != "" && p.text("id") != "" && p.text("id") != id {
		p = nil
	}
	f, isFunction := jsontext.Member(e, chatFunction)
	member, kind := "arguments", chatFunction
	if custom, ok := jsontext.Member(e, chatCustom); ok && !isFunction {
		f, member, kind = custom, "input", chatCustom
	}
	name := stringMember(f, "name")
	if p == nil {
		p = a.begin(index, kind, nil)
		d.ToolName = name
	}
	if kind == chatCustom {
		p.kind = kind
	}
	for name, value := range map[string]string{"id": id, "name": name} {
		if p.text(name) == "" {
			p.grow(name, 0, value)
		}
	}
	raw := get(f, member)
	input, ok := jsontext.String(raw)
	if !ok && jsontext.IsObject(raw) {
		input = string(raw) // some imitators do not quote it
	}
	p.grow("input", 0, input)
	d.Input = input
}

func (*chatAnswer) readUsage(counts json.RawMessage) transcript.Usage {
	return openAIUsage(counts, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
}

func (a *chatAnswer) content() (blocks []transcript.Block) {
	add := func(b transcript.Block) { blocks = append(blocks, b) }
	text, refusal, member := a.said.text("content"), a.said.text("refusal"), a.member()
	reasoning := a.said.text(member)
	if reasoning != "" || len(a.details) > 0 {
		extra := withExt("member", opt(member), reasoningDetails, optList(a.details, value))
		add(transcript.ThinkingBlock{Thinking: reasoning, Extra: extra})
	}
	if text != "" {
		add(transcript.TextBlock{Text: text, Extra: withExt("annotations", optList(a.annotation, value))})
	}
	if len(a.audio) > 0 {
		audio := slices.Clone(a.audio)
		if data := a.said.text("data"); data != "" {
			audio.set("data", jsontext.AppendString(nil, data))
		}
		add(transcript.TextBlock{Text: a.said.text("transcript"), Extra: withExt("audio", audio.object())})
	}
	if refusal != "" {
		add(transcript.TextBlock{Text: refusal, Extra: withExt("refusal", true)})
	}
	for _, p := range a.pieces {
		b := transcript.ToolCallBlock{ID: p.text("id"), Name: p.text("name"), Input: callInput(p.text("input"), a.done)}
		if p.kind == chatCustom {
			b.Input = object("input", p.text("input")).bytes()
		}
		add(b)
	}
	return blocks
}
