package wire

import (
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// OpenAIChatStream puts the events of a streamed answer together. The zero
// value is ready to use; it is for one goroutine.
type OpenAIChatStream struct {
	answer chatAnswer
	done   bool
	failed bool
}

// NewStream returns an OpenAIChatStream.
func (c OpenAIChat) NewStream() *OpenAIChatStream { return new(OpenAIChatStream) }

// Add takes the data of one server-sent event; the last one is [DONE]. Choices
// other than the first are ignored. The event may be reused afterwards.
//
// An error event gives an [*APIError]. Any other error means that the event is
// not one of a stream, or not one that can follow those before it; it is left
// out, and what was added before stays.
func (s *OpenAIChatStream) Add(event []byte) (Delta, error) {
	if string(jsontext.Trim(event)) == "[DONE]" {
		s.done = true
		return Delta{Done: true}, nil
	}
	if !jsontext.Valid(event) || !jsontext.IsObject(event) {
		return Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", excerpt(event))
	}
	if isOpenAIError(event) {
		s.failed = true
		return Delta{}, NewAPIError(0, event)
	}
	if s.done {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt(event))
	}
	usage, _ := jsontext.Member(event, "usage")
	if !jsontext.IsNull(usage) {
		if !jsontext.IsObject(usage) {
			return Delta{}, fmt.Errorf("wire: stream: usage is not an object: %q", excerpt(usage))
		}
		usage = slices.Clone(usage)
	}
	d, err := s.choices(event)
	if err != nil {
		return Delta{}, err
	}
	a := &s.answer
	if a.id == "" {
		a.id = stringMember(event, "id")
	}
	if model := stringMember(event, "model"); model != "" {
		a.model = model
	}
	if !jsontext.IsNull(usage) {
		a.usage = usage
	}
	return d, nil
}

// choices adds the first choice of an event.
func (s *OpenAIChatStream) choices(event []byte) (d Delta, err error) {
	choices, _ := jsontext.Member(event, "choices")
	for choice := range jsontext.Elements(choices) {
		if index, ok := eventIndex(choice); ok && index != 0 {
			continue
		}
		delta, _ := jsontext.Member(choice, "delta")
		a := &s.answer
		text, refusal, reasoning := len(a.text), len(a.refusal), len(a.reasoning)
		calls, inputs := len(a.calls), inputBytes(a.calls)
		if jsontext.IsObject(delta) {
			if err := a.read(delta); err != nil {
				return Delta{}, err
			}
		}
		if reason := stringMember(choice, "finish_reason"); reason != "" {
			a.reason = reason
		}
		d.Text = string(a.text[text:]) + string(a.refusal[refusal:])
		d.Thinking = string(a.reasoning[reasoning:])
		if len(a.calls) > calls {
			d.ToolName = a.calls[calls].name
		}
		if len(a.calls) > 0 {
			last := a.calls[len(a.calls)-1].input
			d.Input = string(last[max(0, len(last)-inputBytes(a.calls)+inputs):])
		}
	}
	return d, nil
}

func inputBytes(calls []*chatCall) (n int) {
	for _, c := range calls {
		n += len(c.input)
	}
	return n
}

// Response returns the answer as far as it came. Once a finish reason came it
// is what [OpenAIChat.Response] would have given: some servers end their stream
// there. Before that its StopReason is [transcript.StopAborted], after an error
// event [transcript.StopError]: the text is kept as far as it came, reasoning
// too; a call whose input is not whole has the text of its input so far as a
// JSON string. The response is the caller's and does not change with later
// events.
func (s *OpenAIChatStream) Response() *transcript.Response {
	a := s.answer
	a.cut = a.reason == ""
	resp, err := a.response()
	if err != nil { // Add has checked it
		resp = &transcript.Response{API: apiOpenAIChat, Message: transcript.Message{Role: transcript.RoleAssistant}}
	}
	switch {
	case s.failed:
		resp.StopReason = transcript.StopError
	case a.cut:
		resp.StopReason = transcript.StopAborted
	}
	return resp
}
