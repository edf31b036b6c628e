package openairesponses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

type stream struct{ format.Accumulator }

// NewStream returns a stream for an answer. An event about a failed answer is an
// error event.
func (s Format) NewStream() wire.Stream { return s.stream() }

func (s Format) stream() *format.Stream {
	return format.NewStream(&stream{format.Accumulator{API: format.APIOpenAIResponses}})
}

func (s *stream) Refusal(obj []byte) *wire.APIError {
	if e := s.Accumulator.Refusal(obj); e != nil || s.Done || js.String(obj, "type") != "response.failed" {
		return e
	}
	response := js.Get(obj, "response")
	if !jsontext.IsObject(response) || s.update(response) != nil {
		return nil // for add
	}
	return wire.NewAPIError(0, response)
}

func (s *stream) Add(event []byte) (d wire.Delta, err error) {
	kind := js.String(event, "type")
	if s.Done {
		return wire.Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", js.Excerpt([]byte(kind)))
	}
	switch kind {
	case "response.created", "response.in_progress", "response.queued",
		"response.completed", "response.incomplete", "response.failed":
		err = s.state(kind, js.Get(event, "response"))
		d.Done = s.Done
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

// state reads an event about the whole answer. The last one contains all of it,
// unless a proxy removed that. Pieces that have not ended stay so.
func (s *stream) state(kind string, response []byte) error {
	if !jsontext.IsObject(response) {
		return fmt.Errorf("wire: stream: %s without a response", kind)
	}
	if err := s.update(response); err != nil {
		return err
	}
	if kind != "response.completed" && kind != "response.incomplete" {
		return nil
	}
	s.Done, s.Over = true, true
	if all := (stream{}); all.Whole(response) == nil && len(all.Pieces) > 0 {
		s.Pieces = all.Pieces
	}
	return nil
}

func (s *stream) startItem(event []byte) (wire.Delta, error) {
	p, err := s.Start(event, "output_index", "item")
	switch {
	case err != nil:
		return wire.Delta{}, err
	case p.Kind == "function_call" || p.Kind == customCall:
		return wire.Delta{ToolName: js.String(p.Start, "name")}, nil
	}
	return wire.Delta{ToolName: clientCalls[p.Kind]}, nil
}

func (s *stream) endItem(event []byte) error {
	raw := js.Get(event, "item")
	p, err := s.Open(event, "output_index")
	if err != nil {
		return err
	}
	if _, err := itemBlocks(raw); err != nil {
		return err
	}
	p.Whole, p.Done = slices.Clone(raw), true
	return nil
}

func (s *stream) addText(event []byte, indexName string, shown *string) error {
	p, err := s.Open(event, "output_index")
	if err != nil {
		return err
	}
	index, _ := jsontext.Int(js.Get(event, indexName))
	*shown = js.String(event, "delta")
	p.Grow(js.String(event, "type"), index, *shown)
	return nil
}

func (s *stream) Content() []transcript.Block { return s.Blocks(itemSoFar) }

// itemSoFar returns the blocks of an item so far.
func itemSoFar(p *format.Piece) (blocks []transcript.Block) {
	if p.Done {
		blocks, _ = itemBlocks(p.Whole) // it was checked when it came
		return blocks
	}
	var thinking []string
	var input []byte
	for _, t := range p.Texts {
		switch text := string(t.Text); t.Name {
		case "response.output_text.delta", "response.refusal.delta":
			if text != "" {
				blocks = append(blocks, transcript.TextBlock{Text: text})
			}
		case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
			thinking = append(thinking, text)
		default:
			input = t.Text
		}
	}
	switch p.Kind {
	case "function_call", customCall:
		b := callBlock(p.Start)
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

// Response reads the body of an answer that was not streamed. The members of an item
// other than its text are in the member "ext" of its block; items that fit no block are
// kept unchanged. Usage.Input is the prompt without its cached tokens; Usage.Extra holds
// further counts, for example of reasoning in output_tokens_details. RequestID is the ID
// of the response, not the one in the HTTP header. An error body and an answer that
// failed give an [*wire.APIError] without a status.
func (s Format) Response(body []byte) (*transcript.Response, error) {
	return s.stream().Whole(body)
}

func (s *stream) Whole(body []byte) error {
	output := js.Get(body, "output")
	if !jsontext.IsArray(output) {
		return fmt.Errorf("wire: the answer lacks a list of output: %q", js.Excerpt(body))
	}
	if err := s.update(body); err != nil {
		return err
	}
	for e := range jsontext.Elements(output) {
		if _, err := itemBlocks(e); err != nil {
			return err
		}
		s.Complete(e)
	}
	return nil
}

func (s *stream) update(response []byte) error {
	if err := s.AddUsage(response, "usage"); err != nil {
		return err
	}
	s.Model, s.ID = js.String(response, "model"), js.String(response, "id")
	switch status := cmp.Or(js.String(response, "status"), "completed"); status {
	case "completed":
		s.Reason = status
	case "incomplete":
		s.Reason = cmp.Or(js.String(response, "incomplete_details", "reason"), "max_output_tokens")
	case "failed":
		s.Reason = string(transcript.StopError)
	default: // cancelled, or unfinished
		s.Reason = string(transcript.StopAborted)
	}
	return nil
}

func (*stream) ReadUsage(counts json.RawMessage) transcript.Usage {
	return openai.Usage(counts, "input_tokens", "output_tokens", "input_tokens_details")
}

// itemBlocks returns the blocks of an item of an answer.
func itemBlocks(raw []byte) ([]transcript.Block, error) {
	kind := js.String(raw, "type")
	if !jsontext.IsObject(raw) || kind == "" {
		return nil, fmt.Errorf("wire: the answer has output that is not an item: %q", js.Excerpt(raw))
	}
	if clientCalls[kind] != "" {
		return []transcript.Block{clientCall(raw, kind)}, nil
	}
	switch kind {
	case "message":
		return messageBlocks(raw), nil
	case "function_call", customCall:
		b := callBlock(raw)
		own := js.Opt("")
		if kind == customCall {
			own = customCall
		}
		b.Extra = format.WithExt("type", own, "item", js.Without(raw, "type", "call_id", "name", "arguments", "input").Object())
		return []transcript.Block{b}, nil
	case "reasoning":
		return []transcript.Block{transcript.ThinkingBlock{Thinking: reasoningText(raw), Extra: format.WithExt("item", json.RawMessage(raw))}}, nil
	}
	return []transcript.Block{transcript.RawBlock{JSON: slices.Clone(raw)}}, nil
}

func messageBlocks(raw []byte) (blocks []transcript.Block) {
	for p := range jsontext.Elements(js.Get(raw, "content")) {
		item := js.Without(raw, "type", "role", "content").Object()
		switch js.String(p, "type") {
		case "output_text":
			extra := format.WithExt("item", item, "part", js.Without(p, "type", "text").Object())
			blocks = append(blocks, transcript.TextBlock{Text: js.String(p, "text"), Extra: extra})
		case "refusal":
			extra := format.WithExt("item", item, "refusal", true, "part", js.Without(p, "type", "refusal").Object())
			blocks = append(blocks, transcript.TextBlock{Text: js.String(p, "refusal"), Extra: extra})
		case "":
		default:
			blocks = append(blocks, transcript.RawBlock{JSON: slices.Clone(p)})
		}
	}
	return blocks
}

// callBlock returns a call without the API's own members.
func callBlock(raw []byte) transcript.ToolCallBlock {
	b := transcript.ToolCallBlock{ID: js.String(raw, "call_id"), Name: js.String(raw, "name")}
	if js.String(raw, "type") == customCall {
		b.Input = js.Object("input", js.String(raw, "input")).Bytes()
		return b
	}
	b.Input = format.CallInput(js.String(raw, "arguments"), true)
	return b
}

// reasoningText returns the readable part of reasoning: its text, or a summary.
func reasoningText(raw []byte) string {
	for _, name := range []string{"content", "summary"} {
		var texts []string
		for p := range jsontext.Elements(js.Get(raw, name)) {
			if text := js.String(p, "text"); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 {
			return strings.Join(texts, "\n\n")
		}
	}
	return ""
}
