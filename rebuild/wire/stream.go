package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Delta is what one event of a stream has to show. Most events fill one field
// or none.
type Delta struct {
	Text     string // goes on the text of the answer
	Thinking string // goes on the reasoning
	ToolName string // a call of this tool begins
	Input    string // goes on the input of the call, not valid JSON by itself
	Done     bool   // the answer is complete
}

// AnthropicStream puts the events of a streamed answer together. The zero value
// is ready to use; it is for one goroutine.
type AnthropicStream struct {
	message json.RawMessage // of message_start
	usage   []member        // of message_start and message_delta, newest values
	reason  string
	blocks  []*streamBlock
	done    bool
	failed  bool
}

type member struct {
	name  string
	value json.RawMessage
}

// NewStream returns an AnthropicStream.
func (a Anthropic) NewStream() *AnthropicStream { return new(AnthropicStream) }

// Add takes the data of one server-sent event. Events and deltas of unknown
// types are ignored. The event may be reused afterwards.
//
// An error event gives an [*APIError]. Any other error means that the event is
// not one of a stream, or not one that can follow those before it; it is left
// out, and what was added before stays.
func (s *AnthropicStream) Add(event []byte) (Delta, error) {
	if !jsontext.Valid(event) || !jsontext.IsObject(event) {
		return Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", excerpt(event))
	}
	kind := stringMember(event, "type")
	if s.done && kind != "error" && kind != "ping" {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt([]byte(kind)))
	}
	switch kind {
	case "message_start":
		return Delta{}, s.start(event)
	case "content_block_start":
		return s.startBlock(event)
	case "content_block_delta":
		return s.addDelta(event)
	case "content_block_stop":
		b, err := s.block(event)
		if err == nil {
			b.done = true
		}
		return Delta{}, err
	case "message_delta":
		return Delta{}, s.addMessageDelta(event)
	case "message_stop":
		s.done = true
		for _, b := range s.blocks {
			b.done = true
		}
		return Delta{Done: true}, nil
	case "error":
		s.failed = true
		return Delta{}, NewAPIError(0, event)
	}
	return Delta{}, nil
}

func (s *AnthropicStream) start(event []byte) error {
	message, _ := jsontext.Member(event, "message")
	if s.message != nil || !jsontext.IsObject(message) {
		return fmt.Errorf("wire: stream: unexpected message_start: %q", excerpt(event))
	}
	if _, err := newResponse(message); err != nil {
		return err
	}
	s.message = slices.Clone(message)
	usage, _ := jsontext.Member(s.message, "usage")
	s.mergeUsage(usage)
	s.addTransformations(s.message)
	s.reason = stringMember(message, "stop_reason")
	return nil
}

func (s *AnthropicStream) addMessageDelta(event []byte) error {
	delta, _ := jsontext.Member(event, "delta")
	if reason := stringMember(delta, "stop_reason"); reason != "" {
		s.reason = reason
	}
	usage, _ := jsontext.Member(event, "usage")
	if !jsontext.IsNull(usage) && !jsontext.IsObject(usage) {
		return errors.New("wire: stream: usage is not an object")
	}
	s.mergeUsage(slices.Clone(usage))
	s.addTransformations(event)
	return nil
}

func (s *AnthropicStream) addTransformations(obj json.RawMessage) {
	if changed, ok := jsontext.Member(obj, transformations); ok {
		o := jsontext.AppendObject(nil)
		o.Value(transformations, changed)
		s.mergeUsage(o.End())
	}
}

// mergeUsage takes newer counts. They are cumulative.
func (s *AnthropicStream) mergeUsage(usage json.RawMessage) {
	for name, value := range jsontext.Members(usage) {
		i := slices.IndexFunc(s.usage, func(m member) bool { return m.name == name })
		switch {
		case i < 0:
			s.usage = append(s.usage, member{name, value})
		case !jsontext.IsNull(value):
			s.usage[i].value = value
		}
	}
}

// Response returns the answer as far as it came. After the last event it is
// what [Anthropic.Response] would have given. Before that its StopReason is
// [transcript.StopAborted], after an error event [transcript.StopError]: the
// text is kept as far as it came, reasoning too, though without a signature; a
// call that was not finished has the text of its input so far as a JSON string.
// The response is the caller's and does not change with later events.
func (s *AnthropicStream) Response() *transcript.Response {
	resp, err := newResponse(s.message)
	if err != nil { // start has checked it
		resp = new(transcript.Response)
	}
	resp.API = apiAnthropic
	resp.Message.Role = transcript.RoleAssistant
	switch {
	case s.done:
		resp.StopReason = transcript.StopReason(s.reason)
	case s.failed:
		resp.StopReason = transcript.StopError
	default:
		resp.StopReason = transcript.StopAborted
	}
	o := jsontext.AppendObject(nil)
	for _, m := range s.usage {
		o.Value(m.name, m.value)
	}
	_ = resp.Usage.UnmarshalJSON(o.End()) // an object
	for _, b := range s.blocks {
		if block := b.block(); block != nil {
			resp.Message.Content = append(resp.Message.Content, block)
		}
	}
	return resp
}
