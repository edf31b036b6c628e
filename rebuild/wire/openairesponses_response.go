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

// Response reads the body of an answer that was not streamed. What an item has
// besides its text is in the member "ext" of its block; items that no block fits
// are kept as they are. Usage.Input is the prompt without its cached tokens;
// Usage.Extra has the counts that are no field, those of reasoning in
// output_tokens_details. RequestID is the ID of the response; the ID that the
// provider gives the request is in an HTTP header.
//
// An error body and an answer that failed give an [*APIError], without a status;
// [NewAPIError] takes one.
func (s OpenAIResponses) Response(body []byte) (*transcript.Response, error) {
	return s.NewStream().whole(body)
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
		b.Extra = withExt("type", own, "item", without(raw, "type", "call_id", "name", "arguments", "input"))
		return []transcript.Block{b}, nil
	case "reasoning":
		return []transcript.Block{transcript.ThinkingBlock{Thinking: reasoningText(raw), Extra: withExt("item", json.RawMessage(raw))}}, nil
	}
	return []transcript.Block{transcript.RawBlock{JSON: slices.Clone(raw)}}, nil
}

func messageBlocks(raw []byte) (blocks []transcript.Block) {
	for p := range jsontext.Elements(get(raw, "content")) {
		item := without(raw, "type", "role", "content")
		switch stringMember(p, "type") {
		case "output_text":
			extra := withExt("item", item, "part", without(p, "type", "text"))
			blocks = append(blocks, transcript.TextBlock{Text: stringMember(p, "text"), Extra: extra})
		case "refusal":
			extra := withExt("item", item, "refusal", true, "part", without(p, "type", "refusal"))
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
		b.Input = json.RawMessage(object("input", stringMember(raw, "input")))
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
