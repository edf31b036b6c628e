package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

type responsesStream struct{ accumulator }

// NewStream returns a stream for an answer. An event that says that the answer failed
// is an error event.
func (s OpenAIResponses) NewStream() Stream { return s.stream() }

func (s OpenAIResponses) stream() *streamer {
	return newStream(&responsesStream{accumulator{api: apiOpenAIResponses}})
}

func (s *responsesStream) refusal(obj []byte) *APIError {
	if e := s.accumulator.refusal(obj); e != nil || s.done || stringMember(obj, "type") != "response.failed" {
		return e
	}
	response := get(obj, "response")
	if !jsontext.IsObject(response) || s.update(response) != nil {
		return nil // for add
	}
	return NewAPIError(0, response)
}

func (s *responsesStream) add(event []byte) (d Delta, err error) {
	kind := stringMember(event, "type")
	if s.done {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt([]byte(kind)))
	}
	switch kind {
	case "response.created", "response.in_progress", "response.queued",
		"response.completed", "response.incomplete", "response.failed":
		err = s.state(kind, get(event, "response"))
		d.Done = s.done
	case "response.output_item.added":
		return s.startItem(event)
	case "response.output_item.done":
		err = s.endItem(event)
	case "response.output_text.delta", "response.refusal.delta":
		err = s.addText(event, "content_index", &d.Text)
	case "response.reasoning_text.delta":
		err = s.addText(event, "content_index", &d.Thinking)
	case "response.reasoning_summary_text.delta":
		err = s.addText(event, "summary_index", &d.Thinking)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		err = s.addText(event, "", &d.Input)
	}
	return d, err
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
	p, err := s.start(event, "output_index", "item")
	switch {
	case err != nil:
		return Delta{}, err
	case p.kind == "function_call" || p.kind == customCall:
		return Delta{ToolName: stringMember(p.start, "name")}, nil
	}
	return Delta{ToolName: clientCalls[p.kind]}, nil
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

func (s *responsesStream) addText(event []byte, indexName string, shown *string) error {
	p, err := s.open(event, "output_index")
	if err != nil {
		return err
	}
	index, _ := jsontext.Int(get(event, indexName))
	*shown = stringMember(event, "delta")
	p.grow(stringMember(event, "type"), index, *shown)
	return nil
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

// Response reads the body of an answer that was not streamed. The members of
// an item besides its text are in the member "ext" of its block; items that no block fits
// are kept as they are. Usage.Input is the prompt without its cached tokens;
// Usage.Extra has the counts that are no field, those of reasoning in
// output_tokens_details. RequestID is the ID of the response, not the one in the
// HTTP header. An error body and an answer that failed give an [*APIError] without
// a status.
func (s OpenAIResponses) Response(body []byte) (*transcript.Response, error) {
	return s.stream().whole(body)
}

func (s *responsesStream) whole(body []byte) error {
	output := get(body, "output")
	if !jsontext.IsArray(output) {
		return fmt.Errorf("wire: the answer has no list of output: %q", excerpt(body))
	}
	if err := s.update(body); err != nil {
		return err
	}
	for e := range jsontext.Elements(output) {
		if _, err := itemBlocks(e); err != nil {
			return err
		}
		s.complete(e)
	}
	return nil
}

// update takes what a response says besides its output.
func (s *responsesStream) update(response []byte) error {
	if err := s.addUsage(response, "usage"); err != nil {
		return err
	}
	s.model, s.id = stringMember(response, "model"), stringMember(response, "id")
	switch status := cmp.Or(stringMember(response, "status"), "completed"); status {
	case "completed":
		s.reason = status
	case "incomplete":
		s.reason = cmp.Or(stringMember(response, "incomplete_details", "reason"), "max_output_tokens")
	case "failed":
		s.reason = string(transcript.StopError)
	default: // cancelled, or not at its end
		s.reason = string(transcript.StopAborted)
	}
	return nil
}

func (*responsesStream) readUsage(counts json.RawMessage) transcript.Usage {
	return openAIUsage(counts, "input_tokens", "output_tokens", "input_tokens_details")
}

// itemBlocks returns the blocks of an item of an answer.
func itemBlocks(raw []byte) ([]transcript.Block, error) {
	kind := stringMember(raw, "type")
	if !jsontext.IsObject(raw) || kind == "" {
		return nil, fmt.Errorf("wire: the answer has output that is no item: %q", excerpt(raw))
	}
	if clientCalls[kind] != "" {
		return []transcript.Block{clientCall(raw, kind)}, nil
	}
	switch kind {
	case "message":
		return messageBlocks(raw), nil
	case "function_call", customCall:
		b := callBlock(raw)
		own := opt("")
		if kind == customCall {
			own = customCall
		}
		b.Extra = withExt("type", own, "item", without(raw, "type", "call_id", "name", "arguments", "input").object())
		return []transcript.Block{b}, nil
	case "reasoning":
		return []transcript.Block{transcript.ThinkingBlock{Thinking: reasoningText(raw), Extra: withExt("item", json.RawMessage(raw))}}, nil
	}
	return []transcript.Block{transcript.RawBlock{JSON: slices.Clone(raw)}}, nil
}

func messageBlocks(raw []byte) (blocks []transcript.Block) {
	for p := range jsontext.Elements(get(raw, "content")) {
		item := without(raw, "type", "role", "content").object()
		switch stringMember(p, "type") {
		case "output_text":
			extra := withExt("item", item, "part", without(p, "type", "text").object())
			blocks = append(blocks, transcript.TextBlock{Text: stringMember(p, "text"), Extra: extra})
		case "refusal":
			extra := withExt("item", item, "refusal", true, "part", without(p, "type", "refusal").object())
			blocks = append(blocks, transcript.TextBlock{Text: stringMember(p, "refusal"), Extra: extra})
		case "":
		default:
			blocks = append(blocks, transcript.RawBlock{JSON: slices.Clone(p)})
		}
	}
	return blocks
}

// callBlock returns a call without what only this API knows of it.
func callBlock(raw []byte) transcript.ToolCallBlock {
	b := transcript.ToolCallBlock{ID: stringMember(raw, "call_id"), Name: stringMember(raw, "name")}
	if stringMember(raw, "type") == customCall {
		b.Input = object("input", stringMember(raw, "input")).bytes()
		return b
	}
	b.Input = callInput(stringMember(raw, "arguments"), true)
	return b
}

// reasoningText returns what may be read of reasoning: its text, or a summary.
func reasoningText(raw []byte) string {
	for _, name := range []string{"content", "summary"} {
		var texts []string
		for p := range jsontext.Elements(get(raw, name)) {
			if text := stringMember(p, "text"); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 {
			return strings.Join(texts, "\n\n")
		}
	}
	return ""
}
