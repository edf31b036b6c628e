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
		if err := a.read(get(choice, "delta"), &d); err != nil {
			return Delta{}, err
		}
		if reason := stringMember(choice, "finish_reason"); reason != "" {
			a.reason, a.done = reason, true
		}
	}
	return d, nil
}
