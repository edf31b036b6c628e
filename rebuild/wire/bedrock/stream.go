package bedrock

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Response reads the body of an answer of Converse. Blocks of unknown kinds
// become opaque blocks that hold them unchanged; citations of a text are in the
// member ext of its block. RequestID is empty: it is in an HTTP header. An
// error body gives an [*wire.APIError] without a status.
func (b Format) Response(body []byte) (*transcript.Response, error) {
	return b.stream().Whole(body)
}

func (s *stream) Whole(body []byte) error {
	message := js.Get(body, "output", "message")
	if !jsontext.IsObject(message) {
		return fmt.Errorf("wire: the answer lacks a message: %q", js.Excerpt(body))
	}
	if err := cmp.Or(format.CheckAnswer(message), s.AddUsage(body, "usage")); err != nil {
		return err
	}
	s.Reason = js.String(body, "stopReason")
	for e := range jsontext.Elements(js.Get(message, "content")) {
		if !jsontext.IsObject(e) {
			return fmt.Errorf("wire: the answer has content that is not a block: %q", js.Excerpt(e))
		}
		s.Complete(e)
	}
	return nil
}

func answerBlock(block []byte) transcript.Block {
	for name, value := range jsontext.Members(block) {
		switch {
		case name == "text" && jsontext.IsString(value):
			text, _ := jsontext.String(value)
			return transcript.TextBlock{Text: text}
		case !jsontext.IsObject(value):
		case name == "toolUse":
			if js.String(value, "type") != "" {
				break // a tool that the provider runs itself
			}
			input := js.Get(value, "input")
			if jsontext.IsNull(input) {
				input = []byte("{}")
			}
			return transcript.ToolCallBlock{ID: js.String(value, "toolUseId"), Name: js.String(value, "name"), Input: slices.Clone(input)}
		case name == "reasoningContent":
			if text := js.Get(value, "reasoningText"); jsontext.IsObject(text) {
				return transcript.ThinkingBlock{Thinking: js.String(text, "text"), Signature: js.String(text, "signature")}
			}
			if data := js.String(value, "redactedContent"); data != "" {
				return transcript.RedactedThinkingBlock{Data: data}
			}
		case name == "citationsContent":
			var text strings.Builder
			for e := range jsontext.Elements(js.Get(value, "content")) {
				text.WriteString(js.String(e, "text"))
			}
			return transcript.TextBlock{Text: text.String(), Extra: format.WithExt("citations", js.Get(value, "citations"))}
		}
	}
	return transcript.RawBlock{JSON: js.Object("type", format.OpaqueBedrock, "block", block).Bytes()}
}

// citedText returns a text with its citations.
func citedText(text string, citations []json.RawMessage) transcript.Block {
	return transcript.TextBlock{Text: text, Extra: format.WithExt("citations", js.OptList(citations, js.Value))}
}

// ReadUsage returns the counts; cached tokens are not part of the input.
func (*stream) ReadUsage(counts json.RawMessage) (u transcript.Usage) {
	u.Extra = format.ReadCounts(counts, map[string]*int{
		"inputTokens": &u.Input, "outputTokens": &u.Output, "cacheReadInputTokens": &u.CacheRead, "cacheWriteInputTokens": &u.CacheWrite,
	})
	return u
}

type stream struct{ format.Accumulator }

// NewStream returns a stream for an answer to a request of b.
func (b Format) NewStream() wire.Stream { return b.stream() }

func (b Format) stream() *format.Stream {
	return format.NewStream(&stream{format.Accumulator{API: format.APIBedrock, Model: b.Model}})
}

// Event makes an event of ConverseStream for [wire.Stream] from its JSON and its type:
// the header :event-type (of an error, :exception-type), "contentBlockDelta" for
// example. An SDK reads the binary framing of events. After messageStop only one event
// follows: metadata with the usage.
func Event(kind string, payload []byte) []byte {
	event := append(jsontext.AppendString([]byte{'{'}, kind), ':')
	return append(append(event, payload...), '}')
}

// typed splits such an event.
func typed(event []byte) (kind string, payload []byte) {
	for kind, payload = range jsontext.Members(event) {
		break
	}
	return kind, payload
}

// Refusal also recognises an error that replaces an answer.
func (*stream) Refusal(obj []byte) *wire.APIError {
	if kind, payload := typed(obj); strings.HasSuffix(kind, "Exception") {
		e := wire.NewAPIError(0, payload)
		e.Type = kind
		return e
	}
	if js.Get(obj, "output") != nil || js.String(obj, "message") == "" {
		return nil
	}
	return wire.NewAPIError(0, obj)
}

func (s *stream) Add(event []byte) (wire.Delta, error) {
	kind, payload := typed(event)
	if !jsontext.IsObject(payload) {
		return wire.Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", js.Excerpt(event))
	}
	if s.Done && strings.HasPrefix(kind, "contentBlock") {
		return wire.Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", kind)
	}
	switch kind {
	case "messageStart":
		return wire.Delta{}, format.CheckAnswer(payload)
	case "contentBlockStart":
		return s.startBlock(payload)
	case "contentBlockDelta":
		return s.delta(payload)
	case "contentBlockStop":
		return wire.Delta{}, s.Stop(payload, blockIndex)
	case "messageStop":
		s.Reason = js.String(payload, "stopReason")
		s.End()
		return wire.Delta{Done: true}, nil
	case "metadata":
		return wire.Delta{}, s.AddUsage(payload, "usage")
	}
	return wire.Delta{}, nil
}

// blockIndex is the member of an event with the index of its block.
const blockIndex = "contentBlockIndex"

func (s *stream) startBlock(payload []byte) (wire.Delta, error) {
	p, index, ok := s.At(payload, blockIndex)
	if !ok || p != nil {
		return wire.Delta{}, fmt.Errorf("wire: stream: event about a block that is not open: %q", js.Excerpt(payload))
	}
	start, call := js.Get(payload, "start"), js.Get(payload, "start", "toolUse")
	switch {
	case !js.HasEachOnce(start): // an empty event
		s.Begin(index, "text", nil)
	case !jsontext.IsObject(call) || js.String(call, "type") != "":
		s.Begin(index, "opaque", start)
	default:
		s.Begin(index, "call", call)
		return wire.Delta{ToolName: js.String(call, "name")}, nil
	}
	return wire.Delta{}, nil
}

// delta adds to a block. Texts and reasoning have no start of their own.
func (s *stream) delta(payload []byte) (d wire.Delta, err error) {
	delta := js.Get(payload, "delta")
	if !jsontext.IsObject(delta) {
		return wire.Delta{}, fmt.Errorf("wire: stream: delta is not an object: %q", js.Excerpt(payload))
	}
	text, call, reasoning := js.Get(delta, "text"), js.Get(delta, "toolUse"), js.Get(delta, "reasoningContent")
	citation, result := js.Get(delta, "citation"), js.Get(delta, "toolResult")
	p, index, ok := s.At(payload, blockIndex)
	switch {
	case !ok || p != nil && p.Done:
		return wire.Delta{}, fmt.Errorf("wire: stream: event about a block that is not open: %q", js.Excerpt(payload))
	case p == nil && jsontext.IsObject(reasoning):
		p = s.Begin(index, "thinking", nil)
	case p == nil:
		p = s.Begin(index, "text", nil)
	}
	switch {
	case text != nil && p.Kind == "text":
		d.Text = js.String(text)
		p.Grow("text", 0, d.Text)
	case jsontext.IsObject(citation) && p.Kind == "text":
		p.List = append(p.List, slices.Clone(citation))
	case jsontext.IsArray(result) && p.Kind == "opaque":
		p.List = append(p.List, js.Elements(result)...)
	case jsontext.IsObject(call) && p.Kind == "opaque":
		p.Grow("input", 0, js.String(call, "input"))
	case jsontext.IsObject(call) && p.Kind == "call":
		d.Input = js.String(call, "input")
		p.Grow("input", 0, d.Input)
	case jsontext.IsObject(reasoning) && p.Kind == "thinking":
		if data, err := base64.StdEncoding.DecodeString(js.String(reasoning, "redactedContent")); err == nil && len(data) > 0 {
			p.Grow("redacted", 0, string(data))
		}
		p.Grow("signature", 0, js.String(reasoning, "signature"))
		d.Thinking = js.String(reasoning, "text")
		p.Grow("text", 0, d.Thinking)
	}
	return d, nil
}

func (s *stream) Content() []transcript.Block { return s.Blocks(blocks) }

// blocks returns the block so far, or nil if nothing of it can be shown.
func blocks(p *format.Piece) []transcript.Block {
	text, redacted := p.Text("text"), p.Text("redacted")
	var block transcript.Block
	switch {
	case p.Whole != nil:
		block = answerBlock(p.Whole)
	case p.Kind == "text" && (len(text) > 0 || p.Done):
		block = citedText(text, p.List)
	case p.Kind == "thinking" && redacted != "" && p.Done:
		block = transcript.RedactedThinkingBlock{Data: base64.StdEncoding.EncodeToString([]byte(redacted))}
	case p.Kind == "thinking" && redacted == "" && p.Done:
		block = transcript.ThinkingBlock{Thinking: text, Signature: p.Text("signature")}
	case p.Kind == "thinking" && redacted == "": // half a signature is worse than none
		block = transcript.ThinkingBlock{Thinking: text}
	case p.Kind == "call":
		block = transcript.ToolCallBlock{ID: js.String(p.Start, "toolUseId"), Name: js.String(p.Start, "name"), Input: format.CallInput(p.Text("input"), p.Done)}
	case p.Kind == "opaque" && p.Done:
		block = answerBlock(ended(p))
	default:
		return nil
	}
	return []transcript.Block{block}
}

// ended returns an opaque block with the added input of a call or content of a
// result.
func ended(p *format.Piece) []byte {
	name, added := "input", format.CallInput(p.Text("input"), p.Done)
	if len(p.List) > 0 {
		name, added = "content", js.List(p.List, js.Value).Bytes()
	} else if p.Text("input") == "" {
		return p.Start
	}
	kind, block := typed(p.Start)
	return js.Object(kind, js.Object("", js.Without(block, name), name, added)).Bytes()
}
