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
	over   bool // [DONE] came
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
		s.over = true
		return Delta{Done: true}, nil
	}
	event, err := eventObject(event)
	if err != nil {
		return Delta{}, err
	}
	if isOpenAIError(event) {
		s.answer.failed = true
		return Delta{}, NewAPIError(0, event)
	}
	if s.over {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt(event))
	}
	usage, err := usageMember(event, "usage")
	if err != nil {
		return Delta{}, err
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
	if usage != nil {
		a.usage = slices.Clone(usage)
	}
	return d, nil
}

// choices adds the first choice of an event.
func (s *OpenAIChatStream) choices(event []byte) (d Delta, err error) {
	choices, _ := jsontext.Member(event, "choices")
	for choice := range jsontext.Elements(choices) {
		index, _ := jsontext.Member(choice, "index")
		if n, ok := jsontext.Int(index); ok && n != 0 {
			continue
		}
		delta, _ := jsontext.Member(choice, "delta")
		a := &s.answer
		before, calls, inputs := a.sizes(), len(a.pieces), a.inputBytes()
		if jsontext.IsObject(delta) {
			if err := a.read(delta); err != nil {
				return Delta{}, err
			}
		}
		if reason := stringMember(choice, "finish_reason"); reason != "" {
			a.reason, a.done = reason, true
		}
		d.Text = a.said.from("content", before[0]) + a.said.from("refusal", before[1]) + a.said.from("transcript", before[3])
		d.Thinking = a.said.from(a.member(), before[2])
		if len(a.pieces) > calls {
			d.ToolName = a.pieces[calls].from("name", 0)
		}
		if n := len(a.pieces); n > 0 {
			last := a.pieces[n-1]
			d.Input = last.from("input", max(0, last.size("input")-a.inputBytes()+inputs))
		}
	}
	return d, nil
}

// sizes returns how long the text, the refusal and the reasoning are.
func (a *chatAnswer) sizes() (n [4]int) {
	for i, name := range []string{"content", "refusal", a.member(), "transcript"} {
		n[i] = a.said.size(name)
	}
	return n
}

func (a *chatAnswer) inputBytes() (n int) {
	for _, p := range a.pieces {
		n += p.size("input")
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
	resp := s.answer.response()
	resp.StopReason = s.answer.stopped(resp.StopReason)
	return resp
}
