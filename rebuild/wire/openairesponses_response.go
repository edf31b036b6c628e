package wire

import (
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
	body, err := answerObject(body, isOpenAIError)
	if err != nil {
		return nil, err
	}
	output, _ := jsontext.Member(body, "output")
	if !jsontext.IsArray(output) {
		return nil, fmt.Errorf("wire: the answer has no list of output: %q", excerpt(body))
	}
	resp, err := responsesAnswer(body)
	if err != nil {
		return nil, err
	}
	for e := range jsontext.Elements(output) {
		blocks, err := itemBlocks(e)
		if err != nil {
			return nil, err
		}
		resp.Message.Content = append(resp.Message.Content, blocks...)
	}
	resp.StopReason = responsesStop(body, resp.Message.Content)
	return resp, nil
}

// responsesAnswer reads all but the output of a response.
func responsesAnswer(body []byte) (*transcript.Response, error) {
	resp := &transcript.Response{
		Message: transcript.Message{Role: transcript.RoleAssistant},
		API:     apiOpenAIResponses, Model: stringMember(body, "model"), RequestID: stringMember(body, "id"),
	}
	usage, err := usageMember(body, "usage")
	resp.Usage = openAIUsage(usage, "input_tokens", "output_tokens", "input_tokens_details")
	return resp, err
}

func responsesStop(body []byte, content []transcript.Block) transcript.StopReason {
	switch status := stringMember(body, "status"); status {
	case "completed", "":
		if hasCalls(content) {
			return transcript.StopToolUse
		}
		if slices.ContainsFunc(content, isRefusal) {
			return transcript.StopRefusal
		}
		return transcript.StopEndTurn
	case "incomplete":
		details, _ := jsontext.Member(body, "incomplete_details")
		switch reason := stringMember(details, "reason"); reason {
		case "max_output_tokens", "":
			return transcript.StopMaxTokens
		case "content_filter":
			return transcript.StopRefusal
		default:
			return transcript.StopReason(reason)
		}
	case "failed":
		return transcript.StopError
	}
	return transcript.StopAborted // cancelled, or not at its end
}

func isRefusal(b transcript.Block) bool {
	t, ok := b.(transcript.TextBlock)
	_, refusal := jsontext.Member(t.Extra["ext"], "refusal")
	return ok && refusal
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
		ext := jsontext.AppendObject(nil)
		if kind == customCall {
			ext.String("type", customCall)
		}
		ext.Func("item", otherMembers(raw, "type", "call_id", "name", "arguments", "input"))
		b.Extra = withExt(ext.End())
		return []transcript.Block{b}, nil
	case "reasoning":
		ext := jsontext.AppendObject(nil)
		ext.Value("item", raw)
		return []transcript.Block{transcript.ThinkingBlock{Thinking: reasoningText(raw), Extra: withExt(ext.End())}}, nil
	}
	return []transcript.Block{transcript.RawBlock{JSON: slices.Clone(raw)}}, nil
}

func messageBlocks(raw []byte) (blocks []transcript.Block) {
	content, _ := jsontext.Member(raw, "content")
	for p := range jsontext.Elements(content) {
		ext := jsontext.AppendObject(nil)
		ext.Func("item", otherMembers(raw, "type", "role", "content"))
		switch stringMember(p, "type") {
		case "output_text":
			ext.Func("part", otherMembers(p, "type", "text"))
			blocks = append(blocks, transcript.TextBlock{Text: stringMember(p, "text"), Extra: withExt(ext.End())})
		case "refusal":
			ext.Bool("refusal", true)
			ext.Func("part", otherMembers(p, "type", "refusal"))
			blocks = append(blocks, transcript.TextBlock{Text: stringMember(p, "refusal"), Extra: withExt(ext.End())})
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
		o := jsontext.AppendObject(nil)
		o.String("input", stringMember(raw, "input"))
		b.Input = o.End()
		return b
	}
	switch input := stringMember(raw, "arguments"); {
	case input == "":
		b.Input = json.RawMessage("{}")
	case jsontext.Valid([]byte(input)):
		b.Input = json.RawMessage(input)
	default:
		b.Input = jsontext.AppendString(nil, input)
	}
	return b
}

// reasoningText returns what may be read of reasoning: its text, or a summary.
func reasoningText(raw []byte) string {
	for _, name := range []string{"content", "summary"} {
		list, _ := jsontext.Member(raw, name)
		var texts []string
		for p := range jsontext.Elements(list) {
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

// otherMembers returns a function that writes an object of the members that are
// not among names.
func otherMembers(obj []byte, names ...string) func(dst []byte) []byte {
	return func(dst []byte) []byte {
		o := jsontext.AppendObject(dst)
		for name, value := range jsontext.Members(obj) {
			if !slices.Contains(names, name) {
				o.Value(name, value)
			}
		}
		return o.End()
	}
}
