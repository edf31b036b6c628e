package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

type anthropicStream struct {
	accumulator
	begun bool
}

// NewStream returns a stream for an answer.
func (a Anthropic) NewStream() Stream { return a.stream() }

func (a Anthropic) stream() *streamer {
	return newStream(&anthropicStream{accumulator: accumulator{api: apiAnthropic}})
}

// Response reads the body of an answer that was not streamed. Blocks of types
// it does not know are kept as they are. The provider's list of what it left out
// of the request is the member "input_transformations" of Usage.Extra, the
// container of its code execution the member "container". RequestID is the ID of the message,
// not the one in the HTTP header. An error body gives an [*APIError] without a status.
func (a Anthropic) Response(body []byte) (*transcript.Response, error) {
	return a.stream().whole(body)
}

func (s *anthropicStream) add(event []byte) (Delta, error) {
	kind := stringMember(event, "type")
	if s.done && kind != "ping" {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", excerpt([]byte(kind)))
	}
	switch kind {
	case "message_start":
		message := get(event, "message")
		if s.begun || !jsontext.IsObject(message) {
			return Delta{}, fmt.Errorf("wire: stream: unexpected message_start: %q", excerpt(event))
		}
		return Delta{}, s.head(message)
	case "content_block_start":
		return s.startBlock(event)
	case "content_block_delta":
		return s.addDelta(event)
	case "content_block_stop":
		return Delta{}, s.stop(event, "index")
	case "message_delta":
		return Delta{}, s.update(get(event, "delta"), event)
	case "message_stop":
		s.end()
		return Delta{Done: true}, nil
	}
	return Delta{}, nil
}

// head takes all but the content of a message.
func (s *anthropicStream) head(message []byte) error {
	if err := checkAnswer(message); err != nil {
		return err
	}
	if err := s.update(message, message); err != nil {
		return err
	}
	s.begun, s.model, s.id = true, stringMember(message, "model"), stringMember(message, "id")
	return nil
}

// update takes why the answer ends from one object, and the counts from another.
// Beside the counts it keeps which reasoning of the request the provider has left
// out, the container that its code runs in, whose ID later requests may give in
// Params, and what its own context editing has cleared.
func (s *anthropicStream) update(message, counts []byte) error {
	if err := s.addUsage(counts, "usage"); err != nil {
		return err
	}
	s.reason = cmp.Or(stringMember(message, "stop_reason"), s.reason)
	for _, name := range []string{"input_transformations", "container", "context_management"} {
		for _, obj := range [][]byte{counts, message} {
			if value := get(obj, name); !jsontext.IsNull(value) {
				s.mergeUsage(object(name, value).bytes())
			}
		}
	}
	return nil
}

func (s *anthropicStream) whole(body []byte) error {
	content := get(body, "content")
	if !jsontext.IsArray(content) {
		return fmt.Errorf("wire: the answer has no list of content: %q", excerpt(body))
	}
	if err := s.head(body); err != nil {
		return err
	}
	for e := range jsontext.Elements(content) {
		if _, err := transcript.UnmarshalBlock(e); err != nil {
			return fmt.Errorf("wire: the answer has content that is no block: %q", excerpt(e))
		}
		s.complete(e)
	}
	return nil
}

func (s *anthropicStream) content() []transcript.Block { return s.blocks(anthropicBlocks) }

func (*anthropicStream) readUsage(counts json.RawMessage) (u transcript.Usage) {
	_ = u.UnmarshalJSON(counts) // an object
	return u
}

func (s *anthropicStream) startBlock(event []byte) (Delta, error) {
	p, err := s.start(event, "index", "content_block")
	if err != nil {
		return Delta{}, err
	}
	switch p.kind {
	case "text":
		return Delta{Text: stringMember(p.start, "text")}, nil
	case "thinking":
		return Delta{Thinking: stringMember(p.start, "thinking")}, nil
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return Delta{ToolName: stringMember(p.start, "name")}, nil
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
	for name, value := range jsontext.Members(get(event, "delta")) {
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

// anthropicBlocks returns the block so far, none if there is nothing to show of it.
func anthropicBlocks(p *piece) []transcript.Block {
	raw := p.whole
	if raw == nil {
		raw = anthropicSoFar(p)
	}
	block, err := transcript.UnmarshalBlock(raw)
	text, isText := block.(transcript.TextBlock)
	_, isRaw := block.(transcript.RawBlock)
	// Nobody could make anything of a part of a block that is not known.
	if err != nil || !p.done && (isRaw || isText && text.Text == "") {
		return nil
	}
	return []transcript.Block{block}
}

// anthropicSoFar returns the JSON of a block so far: the members that it began with,
// and those that deltas have changed. Half a signature is worse than none.
func anthropicSoFar(p *piece) json.RawMessage {
	block := membersOf(p.start)
	for _, t := range p.texts {
		if t.name != inputDelta {
			block.set(t.name, jsontext.AppendString(nil, stringMember(p.start, t.name)+string(t.text)))
		}
	}
	if text := p.text(inputDelta); p.has(inputDelta) || p.kind == "tool_use" || serverIDs[p.kind] != "" {
		input := get(p.start, "input")
		if len(text) > 0 || !p.done || jsontext.IsNull(input) {
			input = callInput(text, p.done)
		}
		block.set("input", input)
	}
	if len(p.list) > 0 {
		all := append(elements(get(p.start, "citations")), p.list...)
		block.set("citations", list(all, value).bytes())
	}
	if !p.done {
		block = slices.DeleteFunc(block, func(m member) bool { return m.name == "signature" })
	}
	return block.object()
}
