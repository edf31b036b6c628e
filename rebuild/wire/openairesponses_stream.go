package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

type responsesStream struct{ accumulator }

// NewStream returns a stream for an answer. An event that says that the answer failed
// is an error event.
func (s OpenAIResponses) NewStream() *Stream {
	return &Stream{&responsesStream{accumulator{api: apiOpenAIResponses}}}
}

func (s *responsesStream) refusal(obj []byte) *APIError {
	if e := openAIRefusal(obj); e != nil || s.done || stringMember(obj, "type") != "response.failed" {
		return e
	}
	response := get(obj, "response")
	if !jsontext.IsObject(response) || s.update(response) != nil {
		return nil // for add
	}
	return NewAPIError(0, response)
}

func (s *responsesStream) add(event []byte) (Delta, error) {
	kind := stringMember(event, "type")
	if s.done {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt([]byte(kind)))
	}
	switch kind {
	case "response.created", "response.in_progress", "response.queued",
		"response.completed", "response.incomplete", "response.failed":
		err := s.state(kind, get(event, "response"))
		return Delta{Done: s.done}, err
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

// state takes what an event says about the whole answer. The last one has all of it,
// unless a proxy has left it out. Pieces that have not ended stay so.
func (s *responsesStream) state(kind string, response []byte) error {
	if !jsontext.IsObject(response) {
		return fmt.Errorf("wire: stream: %s without a response", kind)
	}
	if err := s.update(response); err != nil {
		return err
	}
	if kind != "response.completed" && kind != "response.incomplete" {
		return nil
	}
	s.done, s.over = true, true
	if all := (responsesStream{}); all.whole(response) == nil && len(all.pieces) > 0 {
		s.pieces = all.pieces
	}
	return nil
}

func (s *responsesStream) startItem(event []byte) (Delta, error) {
	raw := get(event, "item")
	known, index, ok := s.at(event, "output_index")
	if !ok || !jsontext.IsObject(raw) || stringMember(raw, "type") == "" || known != nil {
		return Delta{}, fmt.Errorf("wire: stream: unexpected response.output_item.added: %q", excerpt(event))
	}
	switch p := s.begin(index, stringMember(raw, "type"), raw); p.kind {
	case "function_call", customCall:
		return Delta{ToolName: stringMember(raw, "name")}, nil
	default:
		return Delta{ToolName: clientCalls[p.kind]}, nil
	}
}

func (s *responsesStream) endItem(event []byte) error {
	raw := get(event, "item")
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

func (s *responsesStream) addText(event []byte, indexName string) (Delta, error) {
	p, err := s.open(event, "output_index")
	if err != nil {
		return Delta{}, err
	}
	index, _ := jsontext.Int(get(event, indexName))
	text := stringMember(event, "delta")
	p.grow(stringMember(event, "type"), index, text)
	return Delta{Text: text}, nil
}

func (s *responsesStream) content() []transcript.Block { return s.blocks(itemSoFar) }

// itemSoFar returns the blocks of an item so far.
func itemSoFar(p *piece) (blocks []transcript.Block) {
	if p.done {
		blocks, _ = itemBlocks(p.whole) // it was checked when it came
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
