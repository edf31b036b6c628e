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
	response json.RawMessage // of the newest event that has one
	items    []*streamItem
	done     bool
	failed   bool
}

// A streamItem is one item of an answer while it comes in.
type streamItem struct {
	index int64
	start json.RawMessage // as output_item.added has it
	whole json.RawMessage // as output_item.done has it; nil before that
	parts []*streamPart   // what deltas added
}

// A streamPart is a text of an item: a part of a message, a piece of reasoning,
// the input of a call.
type streamPart struct {
	kind  string // of the event
	index int64
	text  []byte
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
	if !jsontext.Valid(event) || !jsontext.IsObject(event) {
		return Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", excerpt(event))
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
		s.done = true
	}
	return Delta{Done: s.done}, nil
}

func (s *OpenAIResponsesStream) startItem(event []byte) (Delta, error) {
	raw, _ := jsontext.Member(event, "item")
	index, ok := outputIndex(event)
	if !ok || !jsontext.IsObject(raw) || stringMember(raw, "type") == "" || s.find(index) != nil {
		return Delta{}, fmt.Errorf("wire: stream: unexpected response.output_item.added: %q", excerpt(event))
	}
	s.items = append(s.items, &streamItem{index: index, start: slices.Clone(raw)})
	switch stringMember(raw, "type") {
	case "function_call", customCall:
		return Delta{ToolName: stringMember(raw, "name")}, nil
	}
	return Delta{}, nil
}

func (s *OpenAIResponsesStream) endItem(event []byte) error {
	raw, _ := jsontext.Member(event, "item")
	it, err := s.open(event)
	if err != nil {
		return err
	}
	if _, err := itemBlocks(raw); err != nil {
		return err
	}
	it.whole = slices.Clone(raw)
	return nil
}

func (s *OpenAIResponsesStream) addText(event []byte, indexName string) (Delta, error) {
	it, err := s.open(event)
	if err != nil {
		return Delta{}, err
	}
	raw, _ := jsontext.Member(event, indexName)
	index, _ := jsontext.Int(raw)
	text, kind := stringMember(event, "delta"), stringMember(event, "type")
	i := slices.IndexFunc(it.parts, func(p *streamPart) bool { return p.kind == kind && p.index == index })
	if i < 0 {
		i = len(it.parts)
		it.parts = append(it.parts, &streamPart{kind: kind, index: index})
	}
	it.parts[i].text = append(it.parts[i].text, text...)
	return Delta{Text: text}, nil
}

// open returns the item that an event is about.
func (s *OpenAIResponsesStream) open(event []byte) (*streamItem, error) {
	if index, ok := outputIndex(event); ok {
		if it := s.find(index); it != nil && it.whole == nil {
			return it, nil
		}
	}
	return nil, fmt.Errorf("wire: stream: event about an item that is not open: %q", excerpt(event))
}

// find looks at the newest item first, as that is the one in work.
func (s *OpenAIResponsesStream) find(index int64) *streamItem {
	for _, it := range slices.Backward(s.items) {
		if it.index == index {
			return it
		}
	}
	return nil
}

func outputIndex(event []byte) (int64, bool) {
	raw, _ := jsontext.Member(event, "output_index")
	return jsontext.Int(raw)
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
	for _, it := range s.items {
		resp.Message.Content = append(resp.Message.Content, it.blocks()...)
	}
	switch {
	case s.failed:
		resp.StopReason = transcript.StopError
	case s.done:
		resp.StopReason = responsesStop(s.response, resp.Message.Content)
	default:
		resp.StopReason = transcript.StopAborted
	}
	return resp
}

// blocks returns the blocks of the item so far.
func (it *streamItem) blocks() (blocks []transcript.Block) {
	if it.whole != nil {
		blocks, _ = itemBlocks(it.whole) // endItem has checked it
		return blocks
	}
	var thinking []string
	var input []byte
	for _, p := range it.parts {
		switch text := string(p.text); p.kind {
		case "response.output_text.delta", "response.refusal.delta":
			if text != "" {
				blocks = append(blocks, transcript.TextBlock{Text: text})
			}
		case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
			thinking = append(thinking, text)
		default:
			input = p.text
		}
	}
	switch stringMember(it.start, "type") {
	case "function_call", customCall:
		b := callBlock(it.start)
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
