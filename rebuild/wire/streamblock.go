package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// A streamBlock is one block of an answer while it comes in.
type streamBlock struct {
	index int64
	start json.RawMessage // the block as content_block_start has it
	done  bool
	// What deltas added; nil if there was no delta of the kind.
	text, thinking, signature, input []byte
	citations                        []json.RawMessage
}

func (s *AnthropicStream) startBlock(event []byte) (Delta, error) {
	block, _ := jsontext.Member(event, "content_block")
	index, ok := eventIndex(event)
	if !ok || !jsontext.IsObject(block) || stringMember(block, "type") == "" || s.find(index) != nil {
		return Delta{}, fmt.Errorf("wire: stream: unexpected content_block_start: %q", excerpt(event))
	}
	s.blocks = append(s.blocks, &streamBlock{index: index, start: slices.Clone(block)})
	switch stringMember(block, "type") {
	case "text":
		return Delta{Text: stringMember(block, "text")}, nil
	case "thinking":
		return Delta{Thinking: stringMember(block, "thinking")}, nil
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return Delta{ToolName: stringMember(block, "name")}, nil
	}
	return Delta{}, nil
}

func (s *AnthropicStream) addDelta(event []byte) (Delta, error) {
	b, err := s.block(event)
	if err != nil {
		return Delta{}, err
	}
	delta, _ := jsontext.Member(event, "delta")
	value := func(name string) string { return stringMember(delta, name) }
	switch value("type") {
	case "text_delta":
		text := value("text")
		b.text = added(b.text, text)
		return Delta{Text: text}, nil
	case "thinking_delta":
		text := value("thinking")
		b.thinking = added(b.thinking, text)
		return Delta{Thinking: text}, nil
	case "signature_delta":
		b.signature = added(b.signature, value("signature"))
	case "input_json_delta":
		text := value("partial_json")
		b.input = added(b.input, text)
		return Delta{Input: text}, nil
	case "citations_delta":
		if citation, ok := jsontext.Member(delta, "citation"); ok {
			b.citations = append(b.citations, slices.Clone(citation))
		}
	}
	return Delta{}, nil
}

// block returns the open block that an event is about.
func (s *AnthropicStream) block(event []byte) (*streamBlock, error) {
	if index, ok := eventIndex(event); ok {
		if b := s.find(index); b != nil && !b.done {
			return b, nil
		}
	}
	return nil, fmt.Errorf("wire: stream: event about a block that is not open: %q", excerpt(event))
}

// find looks at the newest block first, as that is the one in work.
func (s *AnthropicStream) find(index int64) *streamBlock {
	for _, b := range slices.Backward(s.blocks) {
		if b.index == index {
			return b
		}
	}
	return nil
}

func eventIndex(event []byte) (int64, bool) {
	raw, _ := jsontext.Member(event, "index")
	return jsontext.Int(raw)
}

// added is append, but never returns nil.
func added(b []byte, s string) []byte {
	if b == nil {
		b = []byte{}
	}
	return append(b, s...)
}

// block returns the block so far, nil if there is nothing to show of it.
func (b *streamBlock) block() transcript.Block {
	members := b.members()
	o := jsontext.AppendObject(nil)
	for name, value := range jsontext.Members(b.start) {
		if i := slices.IndexFunc(members, func(m member) bool { return m.name == name }); i >= 0 {
			value = members[i].value
			members = slices.Delete(members, i, i+1)
		}
		if name == "signature" && !b.done {
			continue // half a signature is worse than none
		}
		o.Value(name, value)
	}
	for _, m := range members {
		o.Value(m.name, m.value)
	}
	block, err := transcript.UnmarshalBlock(o.End())
	if err != nil {
		return nil
	}
	if t, ok := block.(transcript.TextBlock); ok && !b.done && t.Text == "" {
		return nil
	}
	return block
}

// members returns the members of the block that deltas have changed.
func (b *streamBlock) members() (members []member) {
	add := func(name string, delta []byte) {
		if delta != nil {
			text := stringMember(b.start, name) + string(delta)
			members = append(members, member{name, jsontext.AppendString(nil, text)})
		}
	}
	add("text", b.text)
	add("thinking", b.thinking)
	if b.done {
		add("signature", b.signature)
	}
	switch kind := stringMember(b.start, "type"); {
	case len(b.input) > 0:
		// What is not valid JSON yet becomes a string here.
		members = append(members, member{"input", jsontext.AppendValue(nil, b.input)})
	case b.input != nil || kind == "tool_use" || serverIDs[kind] != "":
		input, _ := jsontext.Member(b.start, "input")
		if !b.done {
			input = json.RawMessage(`""`) // a call without input looks the same until it ends
		} else if jsontext.IsNull(input) {
			input = json.RawMessage("{}")
		}
		members = append(members, member{"input", input})
	}
	if len(b.citations) > 0 {
		before, _ := jsontext.Member(b.start, "citations")
		members = append(members, member{"citations", appendCitations(nil, before, b.citations)})
	}
	return members
}

func appendCitations(dst, before []byte, more []json.RawMessage) []byte {
	dst = append(dst, '[')
	sep := func() {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
	}
	for c := range jsontext.Elements(before) {
		sep()
		dst = jsontext.AppendValue(dst, c)
	}
	for _, c := range more {
		sep()
		dst = jsontext.AppendValue(dst, c)
	}
	return append(dst, ']')
}
