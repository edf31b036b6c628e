package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

type stream struct {
	format.Accumulator
	begun     bool
	container string // ID of the container that its code runs in
}

// NewStream returns a stream for an answer.
func (a Format) NewStream() wire.Stream { return a.stream() }

func (a Format) stream() *format.Stream {
	return format.NewStream(&stream{Accumulator: format.Accumulator{API: format.APIAnthropic}})
}

// Response reads the body of an answer that was not streamed. Blocks of unknown types are
// kept unchanged. Usage.Extra has the provider's list of content that it left out of the
// request as the member "input_transformations", and the container of its code as
// "container". RequestID is the ID of the message, not the one in the HTTP header. An error
// body gives an [*wire.APIError] without a status.
func (a Format) Response(body []byte) (*transcript.Response, error) {
	return a.stream().Whole(body)
}

func (s *stream) Add(event []byte) (wire.Delta, error) {
	kind := js.String(event, "type")
	if s.Done && kind != "ping" {
		return wire.Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", js.Excerpt([]byte(kind)))
	}
	switch kind {
	case "message_start":
		message := js.Get(event, "message")
		if s.begun || !jsontext.IsObject(message) {
			return wire.Delta{}, fmt.Errorf("wire: stream: unexpected message_start: %q", js.Excerpt(event))
		}
		return wire.Delta{}, s.head(message)
	case "content_block_start":
		return s.startBlock(event)
	case "content_block_delta":
		return s.addDelta(event)
	case "content_block_stop":
		return wire.Delta{}, s.Stop(event, "index")
	case "message_delta":
		return wire.Delta{}, s.update(js.Get(event, "delta"), event)
	case "message_stop":
		s.End()
		return wire.Delta{Done: true}, nil
	}
	return wire.Delta{}, nil
}

// head takes all but the content of a message.
func (s *stream) head(message []byte) error {
	if err := format.CheckAnswer(message); err != nil {
		return err
	}
	if err := s.update(message, message); err != nil {
		return err
	}
	s.begun, s.Model, s.ID = true, js.String(message, "model"), js.String(message, "id")
	return nil
}

// update takes the stop reason from one object and the counts from another. With
// the counts it keeps what the provider reports: reasoning left out of the request,
// the container of its code, and content cleared by its context editing.
func (s *stream) update(message, counts []byte) error {
	if err := s.AddUsage(counts, "usage"); err != nil {
		return err
	}
	s.Reason = cmp.Or(js.String(message, "stop_reason"), s.Reason)
	for _, name := range []string{"input_transformations", "container", "context_management"} {
		for _, obj := range [][]byte{counts, message} {
			if value := js.Get(obj, name); !jsontext.IsNull(value) {
				s.MergeUsage(js.Object(name, value).Bytes())
			}
			s.container = cmp.Or(js.String(obj, "container", "id"), s.container)
		}
	}
	return nil
}

func (s *stream) Whole(body []byte) error {
	content := js.Get(body, "content")
	if !jsontext.IsArray(content) {
		return fmt.Errorf("wire: the answer lacks a list of content: %q", js.Excerpt(body))
	}
	if err := s.head(body); err != nil {
		return err
	}
	for e := range jsontext.Elements(content) {
		if _, err := transcript.UnmarshalBlock(e); err != nil {
			return fmt.Errorf("wire: the answer has content that is not a block: %q", js.Excerpt(e))
		}
		s.Complete(e)
	}
	return nil
}

// Content returns the blocks so far. Calls hold the container because their results need it.
func (s *stream) Content() []transcript.Block {
	content := s.Blocks(blocks)
	for i, b := range content {
		if call, ok := b.(transcript.ToolCallBlock); ok && s.container != "" {
			call.Extra = format.WithMember(maps.Clone(call.Extra), "ext", js.Object("container", s.container).Bytes())
			content[i] = call
		}
	}
	return content
}

func (*stream) ReadUsage(counts json.RawMessage) (u transcript.Usage) {
	_ = u.UnmarshalJSON(counts) // an object
	return u
}

func (s *stream) startBlock(event []byte) (wire.Delta, error) {
	p, err := s.Start(event, "index", "content_block")
	if err != nil {
		return wire.Delta{}, err
	}
	switch p.Kind {
	case "text":
		return wire.Delta{Text: js.String(p.Start, "text")}, nil
	case "thinking":
		return wire.Delta{Thinking: js.String(p.Start, "thinking")}, nil
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return wire.Delta{ToolName: js.String(p.Start, "name")}, nil
	}
	return wire.Delta{}, nil
}

// addDelta appends each text of a delta to the member of the same name, except
// for the input of a call.
func (s *stream) addDelta(event []byte) (d wire.Delta, err error) {
	p, err := s.Open(event, "index")
	if err != nil {
		return wire.Delta{}, err
	}
	for name, value := range jsontext.Members(js.Get(event, "delta")) {
		text, ok := jsontext.String(value)
		switch {
		case name == "citation" && jsontext.IsObject(value):
			p.List = append(p.List, slices.Clone(value))
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
		p.Grow(name, 0, text)
	}
	return d, nil
}

// inputDelta is the member of a delta that adds to the input of a call.
const inputDelta = "partial_json"

// blocks returns the block so far, or nil if nothing of it can be shown.
func blocks(p *format.Piece) []transcript.Block {
	raw := p.Whole
	if raw == nil {
		raw = soFar(p)
	}
	block, err := transcript.UnmarshalBlock(raw)
	text, isText := block.(transcript.TextBlock)
	_, isRaw := block.(transcript.RawBlock)
	// A part of an unknown block would be useless.
	if err != nil || !p.Done && (isRaw || isText && text.Text == "") {
		return nil
	}
	return []transcript.Block{block}
}

// soFar returns the JSON of a block so far: the members that it began with, as
// deltas changed them. Half a signature is worse than none.
func soFar(p *format.Piece) json.RawMessage {
	block := js.MembersOf(p.Start)
	for _, t := range p.Texts {
		if t.Name != inputDelta {
			block.Set(t.Name, jsontext.AppendString(nil, js.String(p.Start, t.Name)+string(t.Text)))
		}
	}
	if text := p.Text(inputDelta); p.Has(inputDelta) || p.Kind == "tool_use" || messages.ServerIDs[p.Kind] != "" {
		input := js.Get(p.Start, "input")
		if len(text) > 0 || !p.Done || jsontext.IsNull(input) {
			input = format.CallInput(text, p.Done)
		}
		block.Set("input", input)
	}
	if len(p.List) > 0 {
		all := append(js.Elements(js.Get(p.Start, "citations")), p.List...)
		block.Set("citations", js.List(all, js.Value).Bytes())
	}
	if !p.Done {
		block = slices.DeleteFunc(block, func(m js.Member) bool { return m.Name == "signature" })
	}
	return block.Object()
}
