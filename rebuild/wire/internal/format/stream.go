package format

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// A Stream is the [wire.Stream] of every format.
type Stream struct{ events streamed }

// NewStream returns a stream of events.
func NewStream(events streamed) *Stream { return &Stream{events} }

// streamed puts together an answer of one API, streamed or whole, in an accumulator.
type streamed interface {
	Base() *Accumulator
	// Refusal returns the error in an event or a whole answer, or nil.
	Refusal(obj []byte) *wire.APIError
	// Add takes an event that is not an error.
	Add(event []byte) (wire.Delta, error)
	// Whole takes an answer that was not streamed and is not an error.
	Whole(body []byte) error
	// Content returns the blocks so far.
	Content() []transcript.Block
	ReadUsage(counts json.RawMessage) transcript.Usage
}

// Add implements [wire.Stream].
func (s *Stream) Add(event []byte) (wire.Delta, error) {
	a := s.events.Base()
	event = jsontext.Trim(event)
	if string(event) == "[DONE]" {
		first := !a.Over
		a.Over = true
		return wire.Delta{Done: first}, nil
	}
	if !jsontext.Valid(event) || !jsontext.IsObject(event) {
		return wire.Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", js.Excerpt(event))
	}
	if e := s.events.Refusal(event); e != nil {
		a.failed = true
		return wire.Delta{}, e
	}
	return s.events.Add(event)
}

// Response implements [wire.Stream].
func (s *Stream) Response() *transcript.Response {
	resp := s.response()
	switch a := s.events.Base(); {
	case a.failed:
		resp.StopReason = transcript.StopError
	case !a.Done:
		resp.StopReason = transcript.StopAborted
	}
	return resp
}

// Whole reads the body of an answer that was not streamed.
func (s *Stream) Whole(body []byte) (*transcript.Response, error) {
	body = jsontext.Trim(body)
	if !jsontext.Valid(body) || !jsontext.IsObject(body) {
		return nil, fmt.Errorf("wire: the answer is not a JSON object: %q", js.Excerpt(body))
	}
	if e := s.events.Refusal(body); e != nil {
		return nil, e
	}
	if err := s.events.Whole(body); err != nil {
		return nil, err
	}
	return s.response(), nil
}

// response returns the answer so far with the stop reason that the API gave.
func (s *Stream) response() *transcript.Response {
	a, content := s.events.Base(), s.events.Content()
	return &transcript.Response{
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: content},
		API:     a.API, Model: a.Model, RequestID: a.ID,
		StopReason: stopReason(a.Reason, content),
		Usage:      s.events.ReadUsage(a.usage.Object()),
	}
}

// stops maps the APIs' reasons that have another name here.
var stops = map[string]transcript.StopReason{
	"stop": transcript.StopEndTurn, "tool_calls": transcript.StopEndTurn, "function_call": transcript.StopEndTurn,
	"completed": transcript.StopEndTurn, "STOP": transcript.StopEndTurn,
	"length": transcript.StopMaxTokens, "max_output_tokens": transcript.StopMaxTokens, "MAX_TOKENS": transcript.StopMaxTokens,
	"content_filter": transcript.StopRefusal, "content_filtered": transcript.StopRefusal, "guardrail_intervened": transcript.StopRefusal,
	"SAFETY": transcript.StopRefusal, "RECITATION": transcript.StopRefusal, "LANGUAGE": transcript.StopRefusal,
	"BLOCKLIST": transcript.StopRefusal, "PROHIBITED_CONTENT": transcript.StopRefusal, "SPII": transcript.StopRefusal,
	"IMAGE_SAFETY": transcript.StopRefusal, "IMAGE_PROHIBITED_CONTENT": transcript.StopRefusal, "IMAGE_RECITATION": transcript.StopRefusal,
}

// stopReason returns why the model stopped. If an API ends all answers with the
// same word, the content decides.
func stopReason(reason string, content []transcript.Block) transcript.StopReason {
	switch stop, known := stops[reason]; {
	case !known:
		return transcript.StopReason(reason)
	case stop == transcript.StopEndTurn && HasCalls(content):
		return transcript.StopToolUse
	case stop == transcript.StopEndTurn && slices.ContainsFunc(content, isRefusal):
		return transcript.StopRefusal
	default:
		return stop
	}
}

func isRefusal(b transcript.Block) bool {
	t, ok := b.(transcript.TextBlock)
	_, refusal := jsontext.Member(t.Extra["ext"], "refusal")
	return ok && refusal
}

// CheckAnswer returns an error if the role of a message is not the model's.
func CheckAnswer(message []byte) error {
	if role := js.String(message, "role"); role != "" && role != string(transcript.RoleAssistant) && role != "model" {
		return fmt.Errorf("wire: the answer has role %q", role)
	}
	return nil
}

// ReadCounts sets counts from a usage by name, and returns its other members.
func ReadCounts(usage json.RawMessage, counts map[string]*int) (others transcript.Extra) {
	for name, value := range jsontext.Members(usage) {
		if n, ok := jsontext.Int(value); ok && counts[name] != nil {
			*counts[name] = int(n)
		} else {
			others = WithMember(others, name, value)
		}
	}
	return others
}
