package wire

import (
	"cmp"
	"fmt"

	"github.com/convolog/convolog/internal/jsontext"
)

// NewStream returns a stream for an answer. Choices other than the first are ignored.
// Some servers end their stream at the finish reason, without [DONE].
func (c OpenAIChat) NewStream() *Stream {
	return &Stream{&chatAnswer{accumulator: accumulator{api: apiOpenAIChat}}}
}

func (*chatAnswer) refusal(obj []byte) *APIError { return openAIRefusal(obj) }

func (a *chatAnswer) add(event []byte) (Delta, error) {
	if a.over {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt(event))
	}
	if err := a.addUsage(event, "usage"); err != nil {
		return Delta{}, err
	}
	d, err := a.choices(event)
	if err != nil {
		return Delta{}, err
	}
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
		delta := get(choice, "delta")
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
