package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// OpenAIResponsesStream puts the events of a streamed answer together. The zero
// value is ready to use; it is for one goroutine.
type OpenAIResponsesStream struct {
	accumulator
	response json.RawMessage // of the newest event that has one
}

// NewStream returns an OpenAIResponsesStream.
func (s OpenAIResponses) NewStream() *OpenAIResponsesStream { return new(OpenAIResponsesStream) }

// Add takes the data of one server-sent event. Events of unknown types are
// ignored. The event may be reused afterwards.
//
// An error event, and one that says that the answer failed, give an
// [*APIError]. Any other error means that the event is not one of a stream, or
// not one that can follow those before it; it is left out, and what was added
// before stays.
func (s *OpenAIResponsesStream) Add(event []byte) (Delta, error) {
	if string(jsontext.Trim(event)) == "[DONE]" { // of some imitators
		return Delta{}, nil
	}
	event, err := eventObject(event)
	if err != nil {
		return Delta{}, err
	}
	kind := stringMember(event, "type")
	response, _ := jsontext.Member(event, "response")
	switch {
	case isOpenAIError(event):
		s.failed = true
		return Delta{}, NewAPIError(0, event)
	case s.done:
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt([]byte(kind)))
	}
	switch kind {
	case "response.created", "response.in_progress", "response.queued",
		"response.completed", "response.incomplete", "response.failed":
		return s.update(kind, response)
	case "response.output_item.added":
		return s.startItem(event)
	case "response.output_item.done":
		return Delta{}, s.endItem(event)
	case "response.output_text.delta", "response.refusal.delta":
		return s.addText(event, "content_index")
	case "response.reasoning_text.delta":
		d, err := s.addText(event, "content_index")
		return Delta{Thinking: d.Text}, err
	case "response.reasoning_summary_text.delta":
		d, err := s.addText(event, "summary_index")
		return Delta{Thinking: d.Text}, err
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		d, err := s.addText(event, "")
		return Delta{Input: d.Text}, err
	}
	return Delta{}, nil
}

// update takes what an event says about the whole answer.
func (s *OpenAIResponsesStream) update(kind string, response []byte) (Delta, error) {
	if !jsontext.IsObject(response) {
		return Delta{}, fmt.Errorf("wire: stream: %s without a response", kind)
	}
	if _, err := responsesAnswer(response); err != nil {
		return Delta{}, err
	}
	s.response = slices.Clone(response)
	switch kind {
	case "response.failed":
		s.failed = true
		return Delta{}, NewAPIError(0, response)
	case "response.completed", "response.incomplete":
		s.done = true // pieces that have not ended stay so
	}
	return Delta{Done: s.done}, nil
}

func (s *OpenAIResponsesStream) startItem(event []byte) (Delta, error) {
	raw, _ := jsontext.Member(event, "item")
	known, index, ok := s.at(event, "output_index")
	if !ok || !jsontext.IsObject(raw) || stringMember(raw, "type") == "" || known != nil {
		return Delta{}, fmt.Errorf("wire: stream: unexpected response.output_item.added: %q", excerpt(event))
	}
	switch p := s.add(index, stringMember(raw, "type"), raw); p.kind {
	case "function_call", customCall:
		return Delta{ToolName: stringMember(raw, "name")}, nil
	default:
		return Delta{ToolName: clientCalls[p.kind]}, nil
	}
}

func (s *OpenAIResponsesStream) endItem(event []byte) error {
	raw, _ := jsontext.Member(event, "item")
	p, err := s.open(event, "output_index")
	if err != nil {
		return err
	}
	if _, err := itemBlocks(raw); err != nil {
		return err
	}
	p.whole, p.done = slices.Clone(raw), true
	return nil
}

func (s *OpenAIResponsesStream) addText(event []byte, indexName string) (Delta, error) {
	p, err := s.open(event, "output_index")
	if err != nil {
		return Delta{}, err
	}
	raw, _ := jsontext.Member(event, indexName)
	index, _ := jsontext.Int(raw)
	text := stringMember(event, "delta")
	p.grow(stringMember(event, "type"), index, text)
	return Delta{Text: text}, nil
}

// Response returns the answer as far as it came. After the last event it is
// what [OpenAIResponses.Response] would have given. Before that its StopReason is
// [transcript.StopAborted], after an error event [transcript.StopError]: the
// text is kept as far as it came, reasoning too, though not what would let it go
// back; a call that was not finished has the text of its input so far as a JSON
// string. The response is the caller's and does not change with later events.
func (s *OpenAIResponsesStream) Response() *transcript.Response {
	if output, _ := jsontext.Member(s.response, "output"); s.done && jsontext.IsArray(output) && string(jsontext.Trim(output)) != "[]" {
		if resp, err := (OpenAIResponses{}).Response(s.response); err == nil {
			return resp
		}
	}
	resp, err := responsesAnswer(s.response)
	if err != nil { // update has checked it
		resp = &transcript.Response{API: apiOpenAIResponses, Message: transcript.Message{Role: transcript.RoleAssistant}}
	}
	for _, p := range s.pieces {
		resp.Message.Content = append(resp.Message.Content, itemSoFar(p)...)
	}
	resp.StopReason = s.stopped(responsesStop(s.response, resp.Message.Content))
	return resp
}

// itemSoFar returns the blocks of an item so far.
func itemSoFar(p *piece) (blocks []transcript.Block) {
	if p.done {
		blocks, _ = itemBlocks(p.whole) // endItem has checked it
		return blocks
	}
	var thinking []string
	var input []byte
	for _, t := range p.texts {
		switch text := string(t.text); t.name {
		case "response.output_text.delta", "response.refusal.delta":
			if text != "" {
				blocks = append(blocks, transcript.TextBlock{Text: text})
			}
		case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
			thinking = append(thinking, text)
		default:
			input = t.text
		}
	}
	switch p.kind {
	case "function_call", customCall:
		b := callBlock(p.start)
		b.Input = jsontext.AppendString(nil, string(input))
		return []transcript.Block{b}
	case "reasoning":
		if text := strings.Join(thinking, "\n\n"); text != "" {
			return []transcript.Block{transcript.ThinkingBlock{Thinking: text}}
		}
		return nil
	}
	return blocks
}
