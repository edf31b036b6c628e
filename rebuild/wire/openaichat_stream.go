package wire

import (
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

// NewStream returns a stream for an answer. Choices other than the first are ignored.
// Some servers end their stream at the finish reason, without [DONE].
func (c OpenAIChat) NewStream() *Stream { return &Stream{new(chatAnswer)} }

func (*chatAnswer) refusal(event []byte) *APIError { return openAIRefusal(event) }

func (a *chatAnswer) add(event []byte) (Delta, error) {
	if a.over {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt(event))
	}
	usage, err := usageMember(event, "usage")
	if err != nil {
		return Delta{}, err
	}
	d, err := a.choices(event)
	if err != nil {
		return Delta{}, err
	}
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
func (a *chatAnswer) choices(event []byte) (d Delta, err error) {
	choices, _ := jsontext.Member(event, "choices")
	for choice := range jsontext.Elements(choices) {
		index, _ := jsontext.Member(choice, "index")
		if n, ok := jsontext.Int(index); ok && n != 0 {
			continue
		}
		delta, _ := jsontext.Member(choice, "delta")
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
