package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// AnthropicStream puts the events of a streamed answer together. The zero value
// is ready to use; it is for one goroutine.
type AnthropicStream struct {
	accumulator
	message json.RawMessage // of message_start
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
	event, err := eventObject(event)
	if err != nil {
		return Delta{}, err
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
		p, err := s.open(event, "index")
		if err == nil {
			p.done = true
		}
		return Delta{}, err
	case "message_delta":
		return Delta{}, s.addMessageDelta(event)
	case "message_stop":
		s.end()
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
	s.addBeside(s.message)
	s.reason = stringMember(message, "stop_reason")
	return nil
}

func (s *AnthropicStream) addMessageDelta(event []byte) error {
	delta, _ := jsontext.Member(event, "delta")
	if reason := stringMember(delta, "stop_reason"); reason != "" {
		s.reason = reason
	}
	usage, err := usageMember(event, "usage")
	if err != nil {
		return err
	}
	s.mergeUsage(usage)
	s.addBeside(event)
	s.addBeside(delta)
	return nil
}

// addBeside takes what is kept beside the counts of usage.
func (s *AnthropicStream) addBeside(obj json.RawMessage) {
	for _, name := range besideUsage {
		if value, ok := jsontext.Member(obj, name); ok && !jsontext.IsNull(value) {
			o := jsontext.AppendObject(nil)
			o.Value(name, value)
			s.mergeUsage(o.End())
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
	resp.StopReason = s.stopped(transcript.StopReason(s.reason))
	_ = resp.Usage.UnmarshalJSON(s.counts()) // an object
	for _, p := range s.pieces {
		if block := anthropicBlock(p); block != nil {
			resp.Message.Content = append(resp.Message.Content, block)
		}
	}
	return resp
}

func (s *AnthropicStream) startBlock(event []byte) (Delta, error) {
	block, _ := jsontext.Member(event, "content_block")
	known, index, ok := s.at(event, "index")
	if !ok || !jsontext.IsObject(block) || stringMember(block, "type") == "" || known != nil {
		return Delta{}, fmt.Errorf("wire: stream: unexpected content_block_start: %q", excerpt(event))
	}
	switch p := s.add(index, stringMember(block, "type"), block); p.kind {
	case "text":
		return Delta{Text: stringMember(block, "text")}, nil
	case "thinking":
		return Delta{Thinking: stringMember(block, "thinking")}, nil
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return Delta{ToolName: stringMember(block, "name")}, nil
	}
	return Delta{}, nil
}

// anthropicDeltas are the members that the deltas of a type add to, which have
// the same names in the delta but for the input of a call.
var anthropicDeltas = map[string][]string{
	"text_delta": {"text"}, "thinking_delta": {"thinking"}, "signature_delta": {"signature"}, "input_json_delta": {"partial_json"},
	"compaction_delta": {"content", "encrypted_content"},
}

func (s *AnthropicStream) addDelta(event []byte) (d Delta, err error) {
	p, err := s.open(event, "index")
	if err != nil {
		return Delta{}, err
	}
	delta, _ := jsontext.Member(event, "delta")
	kind := stringMember(delta, "type")
	for _, name := range anthropicDeltas[kind] {
		value, _ := jsontext.Member(delta, name)
		text, ok := jsontext.String(value)
		if !ok && kind == "compaction_delta" {
			continue // null: nothing was summarised
		}
		p.grow(name, 0, text)
		switch name {
		case "text":
			d.Text = text
		case "thinking":
			d.Thinking = text
		case "partial_json":
			d.Input = text
		}
	}
	if citation, ok := jsontext.Member(delta, "citation"); ok && kind == "citations_delta" {
		p.list = append(p.list, slices.Clone(citation))
	}
	return d, nil
}

// anthropicBlock returns the block so far, nil if there is nothing to show of it.
func anthropicBlock(p *piece) transcript.Block {
	members := anthropicMembers(p)
	o := jsontext.AppendObject(nil)
	for name, value := range jsontext.Members(p.start) {
		if i := slices.IndexFunc(members, func(m member) bool { return m.name == name }); i >= 0 {
			value = members[i].value
			members = slices.Delete(members, i, i+1)
		}
		if name == "signature" && !p.done {
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
	if t, ok := block.(transcript.TextBlock); ok && !p.done && t.Text == "" {
		return nil
	}
	return block
}

// anthropicMembers returns the members of a block that deltas have changed.
func anthropicMembers(p *piece) (members []member) {
	for _, name := range []string{"text", "thinking", "signature", "content", "encrypted_content"} {
		if text, ok := p.text(name); ok && (p.done || name != "signature") {
			members = append(members, member{name, jsontext.AppendString(nil, stringMember(p.start, name)+string(text))})
		}
	}
	text, changed := p.text("partial_json")
	if changed || p.kind == "tool_use" || serverIDs[p.kind] != "" {
		input, _ := jsontext.Member(p.start, "input")
		if len(text) > 0 || !p.done || jsontext.IsNull(input) {
			input = callInput(text, p.done)
		}
		members = append(members, member{"input", input})
	}
	if len(p.list) > 0 {
		before, _ := jsontext.Member(p.start, "citations")
		var all []json.RawMessage
		for c := range jsontext.Elements(before) {
			all = append(all, c)
		}
		members = append(members, member{"citations", appendList(nil, append(all, p.list...), appendRaw)})
	}
	return members
}
