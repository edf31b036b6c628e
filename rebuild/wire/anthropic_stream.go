package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

type anthropicStream struct {
	accumulator
	message json.RawMessage // of message_start
}

// NewStream returns a stream for an answer.
func (a Anthropic) NewStream() *Stream { return &Stream{new(anthropicStream)} }

func (*anthropicStream) refusal(event []byte) *APIError {
	if stringMember(event, "type") != "error" {
		return nil
	}
	return NewAPIError(0, event)
}

func (s *anthropicStream) add(event []byte) (Delta, error) {
	kind := stringMember(event, "type")
	if s.done && kind != "ping" {
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
	}
	return Delta{}, nil
}

func (s *anthropicStream) start(event []byte) error {
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

func (s *anthropicStream) addMessageDelta(event []byte) error {
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
func (s *anthropicStream) addBeside(obj json.RawMessage) {
	for _, name := range besideUsage {
		if value, ok := jsontext.Member(obj, name); ok && !jsontext.IsNull(value) {
			o := jsontext.AppendObject(nil)
			o.Value(name, value)
			s.mergeUsage(o.End())
		}
	}
}

func (s *anthropicStream) response() *transcript.Response {
	resp, err := newResponse(s.message)
	if err != nil { // start has checked it
		resp = new(transcript.Response)
	}
	resp.API = apiAnthropic
	resp.Message.Role = transcript.RoleAssistant
	resp.StopReason = transcript.StopReason(s.reason)
	_ = resp.Usage.UnmarshalJSON(s.counts()) // an object
	for _, p := range s.pieces {
		if block := anthropicBlock(p); block != nil {
			resp.Message.Content = append(resp.Message.Content, block)
		}
	}
	return resp
}

func (s *anthropicStream) startBlock(event []byte) (Delta, error) {
	block, _ := jsontext.Member(event, "content_block")
	known, index, ok := s.at(event, "index")
	if !ok || !jsontext.IsObject(block) || stringMember(block, "type") == "" || known != nil {
		return Delta{}, fmt.Errorf("wire: stream: unexpected content_block_start: %q", excerpt(event))
	}
	switch p := s.begin(index, stringMember(block, "type"), block); p.kind {
	case "text":
		return Delta{Text: stringMember(block, "text")}, nil
	case "thinking":
		return Delta{Thinking: stringMember(block, "thinking")}, nil
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return Delta{ToolName: stringMember(block, "name")}, nil
	}
	return Delta{}, nil
}

// addDelta takes what a delta adds: its texts go on the members of their names, but
// for the input of a call.
func (s *anthropicStream) addDelta(event []byte) (d Delta, err error) {
	p, err := s.open(event, "index")
	if err != nil {
		return Delta{}, err
	}
	delta, _ := jsontext.Member(event, "delta")
	for name, value := range jsontext.Members(delta) {
		text, ok := jsontext.String(value)
		switch {
		case name == "citation" && jsontext.IsObject(value):
			p.list = append(p.list, slices.Clone(value))
			continue
		case !ok || name == "type": // null in a compaction: nothing was summarised
			continue
		case name == "text":
			d.Text += text
		case name == "thinking":
			d.Thinking += text
		case name == inputDelta:
			d.Input += text
		}
		p.grow(name, 0, text)
	}
	return d, nil
}

// inputDelta is the member of a delta that adds to the input of a call.
const inputDelta = "partial_json"

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
	switch b := block.(type) {
	case transcript.TextBlock:
		if !p.done && b.Text == "" {
			return nil
		}
	case transcript.RawBlock:
		if !p.done {
			return nil // nobody could make anything of a part of it
		}
	}
	return block
}

// anthropicMembers returns the members of a block that deltas have changed.
func anthropicMembers(p *piece) (members []member) {
	for _, t := range p.texts {
		if t.name != inputDelta && (p.done || t.name != "signature") {
			members = append(members, member{t.name, jsontext.AppendString(nil, stringMember(p.start, t.name)+string(t.text))})
		}
	}
	text, changed := p.text(inputDelta)
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
