package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Response reads the body of an answer that was not streamed: its first choice.
// A refusal and reasoning become blocks that go back as they came. Usage.Input
// is the prompt without its cached tokens; Usage.Extra has the counts that are
// no field, those of reasoning in completion_tokens_details. RequestID is the
// ID of the completion; the ID that the provider gives the request is in an
// HTTP header.
//
// An error body gives an [*APIError], without a status; [NewAPIError] takes
// one.
func (c OpenAIChat) Response(body []byte) (*transcript.Response, error) {
	switch {
	case !jsontext.Valid(body) || !jsontext.IsObject(body):
		return nil, fmt.Errorf("wire: the answer is not a JSON object: %q", excerpt(body))
	case isOpenAIError(body):
		return nil, NewAPIError(0, body)
	}
	choices, _ := jsontext.Member(body, "choices")
	for choice := range jsontext.Elements(choices) {
		message, _ := jsontext.Member(choice, "message")
		if !jsontext.IsObject(message) {
			break
		}
		usage, _ := jsontext.Member(body, "usage")
		a := chatAnswer{model: stringMember(body, "model"), id: stringMember(body, "id"), usage: usage}
		if err := a.read(message); err != nil {
			return nil, err
		}
		a.reason = stringMember(choice, "finish_reason")
		return a.response()
	}
	return nil, fmt.Errorf("wire: the answer has no message: %q", excerpt(body))
}

// A chatAnswer is an answer, whole or as far as it came.
type chatAnswer struct {
	model, id  string
	reason     string // finish_reason
	usage      json.RawMessage
	text       []byte // nil: none
	refusal    []byte
	reasoning  []byte
	member     string            // that reasoning came in
	details    []json.RawMessage // of reasoning
	annotation []json.RawMessage
	calls      []*chatCall
	cut        bool // the answer did not end
}

type chatCall struct {
	index int64
	id    string
	name  string
	input []byte
	// A custom tool has a text as its input.
	custom bool
}

// read takes what a message, or a piece of one, adds to the answer.
func (a *chatAnswer) read(message []byte) error {
	if role := stringMember(message, "role"); role != "" && role != "assistant" {
		return fmt.Errorf("wire: the answer has role %q", role)
	}
	content, _ := jsontext.Member(message, "content")
	switch {
	case jsontext.IsString(content):
		s, _ := jsontext.String(content)
		a.text = added(a.text, s)
	case jsontext.IsArray(content): // of some imitators
		for e := range jsontext.Elements(content) {
			a.text = added(a.text, stringMember(e, "text"))
		}
	case !jsontext.IsNull(content):
		return fmt.Errorf("wire: the answer has content that is no text: %q", excerpt(content))
	}
	a.refusal = append(a.refusal, stringMember(message, "refusal")...)
	for _, name := range []string{reasoningContent, reasoningPlain} {
		raw, _ := jsontext.Member(message, name)
		if s, ok := jsontext.String(raw); ok && (a.member == "" || a.member == name) {
			a.member = name
			a.reasoning = append(a.reasoning, s...)
		}
	}
	for name, list := range map[string]*[]json.RawMessage{reasoningDetails: &a.details, "annotations": &a.annotation} {
		raw, _ := jsontext.Member(message, name)
		for e := range jsontext.Elements(raw) {
			*list = append(*list, slices.Clone(e))
		}
	}
	calls, _ := jsontext.Member(message, "tool_calls")
	for e := range jsontext.Elements(calls) {
		a.readCall(e)
	}
	return nil
}

// readCall adds a call or a piece of one. Some imitators have no index, or the
// same for all calls: an ID that the call does not have begins another.
func (a *chatAnswer) readCall(e []byte) {
	index := int64(len(a.calls))
	raw, _ := jsontext.Member(e, "index")
	id := stringMember(e, "id")
	if n, ok := jsontext.Int(raw); ok {
		index = n
	} else if index > 0 && (id == "" || id == a.calls[index-1].id) {
		index = a.calls[index-1].index
	}
	var c *chatCall
	for _, known := range slices.Backward(a.calls) {
		if known.index == index {
			c = known
			break
		}
	}
	if c == nil || id != "" && c.id != "" && c.id != id {
		c = &chatCall{index: index}
		a.calls = append(a.calls, c)
	}
	if c.id == "" {
		c.id = id
	}
	f, ok := jsontext.Member(e, "function")
	member := "arguments"
	if !ok {
		if f, ok = jsontext.Member(e, "custom"); ok {
			member, c.custom = "input", true
		}
	}
	if c.name == "" {
		c.name = stringMember(f, "name")
	}
	raw, _ = jsontext.Member(f, member)
	input, ok := jsontext.String(raw)
	if !ok && jsontext.IsObject(raw) {
		input = string(raw) // some imitators do not quote it
	}
	c.input = append(c.input, input...)
}

func (a *chatAnswer) response() (*transcript.Response, error) {
	resp := &transcript.Response{
		Message: transcript.Message{Role: transcript.RoleAssistant},
		API:     apiOpenAIChat, Model: a.model, RequestID: a.id,
		StopReason: a.stopReason(),
	}
	var err error
	if resp.Usage, err = openAIUsage(a.usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details"); err != nil {
		return nil, err
	}
	add := func(b transcript.Block) { resp.Message.Content = append(resp.Message.Content, b) }
	if len(a.reasoning) > 0 || len(a.details) > 0 {
		ext := jsontext.AppendObject(nil)
		ext.OptString("member", a.member)
		if len(a.details) > 0 {
			ext.Func(reasoningDetails, func(dst []byte) []byte { return appendList(dst, a.details, appendRaw) })
		}
		add(transcript.ThinkingBlock{Thinking: string(a.reasoning), Extra: withExt(ext.End())})
	}
	if len(a.text) > 0 {
		ext := jsontext.AppendObject(nil)
		if len(a.annotation) > 0 {
			ext.Func("annotations", func(dst []byte) []byte { return appendList(dst, a.annotation, appendRaw) })
		}
		add(transcript.TextBlock{Text: string(a.text), Extra: withExt(ext.End())})
	}
	if len(a.refusal) > 0 {
		add(transcript.TextBlock{Text: string(a.refusal), Extra: withExt([]byte(`{"refusal":true}`))})
	}
	for _, c := range a.calls {
		add(c.block(a.cut))
	}
	return resp, nil
}

// block returns the call. What is not valid JSON of its input is a string.
func (c *chatCall) block(cut bool) transcript.ToolCallBlock {
	b := transcript.ToolCallBlock{ID: c.id, Name: c.name, Input: slices.Clone(c.input)}
	switch {
	case c.custom:
		o := jsontext.AppendObject(nil)
		o.String("input", string(c.input))
		b.Input = o.End()
	case len(c.input) == 0 && cut:
		b.Input = json.RawMessage(`""`)
	case len(c.input) == 0:
		b.Input = json.RawMessage("{}")
	case !jsontext.Valid(c.input):
		b.Input = jsontext.AppendString(nil, string(c.input))
	}
	return b
}

func (a *chatAnswer) stopReason() transcript.StopReason {
	switch a.reason {
	case "stop", "tool_calls", "function_call":
		switch {
		case len(a.calls) > 0:
			return transcript.StopToolUse
		case len(a.refusal) > 0:
			return transcript.StopRefusal
		}
		return transcript.StopEndTurn
	case "length":
		return transcript.StopMaxTokens
	case "content_filter":
		return transcript.StopRefusal
	}
	return transcript.StopReason(a.reason)
}
