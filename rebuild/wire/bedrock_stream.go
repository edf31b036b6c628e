package wire

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// opaqueBedrock is the type of blocks that hold a content block of a kind for
// which this package has no block: {"type":"bedrock_block","block":{...}}.
const opaqueBedrock = "bedrock_block"

// Response reads the body of an answer of Converse. Blocks of kinds it does not
// know become opaque ones with the block as it is; citations of a text are in
// the member ext of its block. RequestID is empty: it is in an HTTP header.
// An error body gives an [*APIError] without a status.
func (b Bedrock) Response(body []byte) (*transcript.Response, error) {
	return b.stream().whole(body)
}

func (s *bedrockStream) whole(body []byte) error {
	message := get(body, "output", "message")
	if !jsontext.IsObject(message) {
		return fmt.Errorf("wire: the answer has no message: %q", excerpt(body))
	}
	if err := cmp.Or(checkAnswer(message), s.addUsage(body, "usage")); err != nil {
		return err
	}
	s.reason = stringMember(body, "stopReason")
	for e := range jsontext.Elements(get(message, "content")) {
		if !jsontext.IsObject(e) {
			return fmt.Errorf("wire: the answer has content that is no block: %q", excerpt(e))
		}
		s.complete(e)
	}
	return nil
}

// bedrockAnswerBlock reads one content block.
func bedrockAnswerBlock(block []byte) transcript.Block {
	for name, value := range jsontext.Members(block) {
		switch {
		case name == "text" && jsontext.IsString(value):
			text, _ := jsontext.String(value)
			return transcript.TextBlock{Text: text}
		case !jsontext.IsObject(value):
		case name == "toolUse":
			if stringMember(value, "type") != "" {
				break // a tool that the provider runs itself
			}
			input := get(value, "input")
			if jsontext.IsNull(input) {
				input = []byte("{}")
			}
			return transcript.ToolCallBlock{ID: stringMember(value, "toolUseId"), Name: stringMember(value, "name"), Input: slices.Clone(input)}
		case name == "reasoningContent":
			if text := get(value, "reasoningText"); jsontext.IsObject(text) {
				return transcript.ThinkingBlock{Thinking: stringMember(text, "text"), Signature: stringMember(text, "signature")}
			}
			if data := stringMember(value, "redactedContent"); data != "" {
				return transcript.RedactedThinkingBlock{Data: data}
			}
		case name == "citationsContent":
			var text strings.Builder
			for e := range jsontext.Elements(get(value, "content")) {
				text.WriteString(stringMember(e, "text"))
			}
			return citedText(text.String(), elements(get(value, "citations")))
		}
	}
	return transcript.RawBlock{JSON: object("type", opaqueBedrock, "block", block).bytes()}
}

// citedText returns a text with the citations that it came with.
func citedText(text string, citations []json.RawMessage) transcript.Block {
	return transcript.TextBlock{Text: text, Extra: withExt("citations", optList(citations, value))}
}

// readUsage returns the counts; those of a cache are not part of the input.
func (*bedrockStream) readUsage(counts json.RawMessage) (u transcript.Usage) {
	u.Extra = readCounts(counts, map[string]*int{
		"inputTokens": &u.Input, "outputTokens": &u.Output, "cacheReadInputTokens": &u.CacheRead, "cacheWriteInputTokens": &u.CacheWrite,
	})
	return u
}

type bedrockStream struct{ accumulator }

// NewStream returns a stream for an answer to a request of b.
func (b Bedrock) NewStream() Stream { return b.stream() }

func (b Bedrock) stream() *streamer {
	return newStream(&bedrockStream{accumulator{api: apiBedrock, model: b.Model}})
}

// BedrockEvent returns an event of ConverseStream for [Stream.Add]: its type, as its
// header :event-type (or, of an error, :exception-type) has it, "contentBlockDelta" for
// example, and its JSON. The binary framing of events is the business of an SDK. The
// event messageStop is the last but one: metadata with the usage follows.
func BedrockEvent(kind string, payload []byte) []byte {
	event := append(jsontext.AppendString([]byte{'{'}, kind), ':')
	return append(append(event, payload...), '}')
}

// typed takes such an event apart.
func typed(event []byte) (kind string, payload []byte) {
	for kind, payload = range jsontext.Members(event) {
		break
	}
	return kind, payload
}

// refusal recognises an error in the place of an answer too.
func (*bedrockStream) refusal(obj []byte) *APIError {
	if kind, payload := typed(obj); strings.HasSuffix(kind, "Exception") {
		e := NewAPIError(0, payload)
		e.Type = kind
		return e
	}
	if get(obj, "output") != nil || stringMember(obj, "message") == "" {
		return nil
	}
	return NewAPIError(0, obj)
}

func (s *bedrockStream) add(event []byte) (Delta, error) {
	kind, payload := typed(event)
	if !jsontext.IsObject(payload) {
		return Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", excerpt(event))
	}
	if s.done && strings.HasPrefix(kind, "contentBlock") {
		return Delta{}, fmt.Errorf("wire: stream: %q after the end of the answer", kind)
	}
	switch kind {
	case "messageStart":
		return Delta{}, checkAnswer(payload)
	case "contentBlockStart":
		return s.startBlock(payload)
	case "contentBlockDelta":
		return s.delta(payload)
	case "contentBlockStop":
		return Delta{}, s.stop(payload, blockIndex)
	case "messageStop":
		s.reason = stringMember(payload, "stopReason")
		s.end()
		return Delta{Done: true}, nil
	case "metadata":
		return Delta{}, s.addUsage(payload, "usage")
	}
	return Delta{}, nil
}

// blockIndex is the member of an event that says which block it is about.
const blockIndex = "contentBlockIndex"

func (s *bedrockStream) startBlock(payload []byte) (Delta, error) {
	p, index, ok := s.at(payload, blockIndex)
	if !ok || p != nil {
		return Delta{}, fmt.Errorf("wire: stream: event about a block that is not open: %q", excerpt(payload))
	}
	start, call := get(payload, "start"), get(payload, "start", "toolUse")
	switch {
	case !hasEachOnce(start): // it says nothing
		s.begin(index, "text", nil)
	case !jsontext.IsObject(call) || stringMember(call, "type") != "":
		s.begin(index, "opaque", start)
	default:
		s.begin(index, "call", call)
		return Delta{ToolName: stringMember(call, "name")}, nil
	}
	return Delta{}, nil
}

// delta adds to a block. Texts and reasoning have no start of their own.
func (s *bedrockStream) delta(payload []byte) (d Delta, err error) {
	delta := get(payload, "delta")
	if !jsontext.IsObject(delta) {
		return Delta{}, fmt.Errorf("wire: stream: delta is not an object: %q", excerpt(payload))
	}
	text, call, reasoning := get(delta, "text"), get(delta, "toolUse"), get(delta, "reasoningContent")
	citation, result := get(delta, "citation"), get(delta, "toolResult")
	p, index, ok := s.at(payload, blockIndex)
	switch {
	case !ok || p != nil && p.done:
		return Delta{}, fmt.Errorf("wire: stream: event about a block that is not open: %q", excerpt(payload))
	case p == nil && jsontext.IsObject(reasoning):
		p = s.begin(index, "thinking", nil)
	case p == nil:
		p = s.begin(index, "text", nil)
	}
	switch {
	case text != nil && p.kind == "text":
		d.Text = stringMember(text)
		p.grow("text", 0, d.Text)
	case jsontext.IsObject(citation) && p.kind == "text":
		p.list = append(p.list, slices.Clone(citation))
	case jsontext.IsArray(result) && p.kind == "opaque":
		p.list = append(p.list, elements(result)...)
	case jsontext.IsObject(call) && p.kind == "opaque":
		p.grow("input", 0, stringMember(call, "input"))
	case jsontext.IsObject(call) && p.kind == "call":
		d.Input = stringMember(call, "input")
		p.grow("input", 0, d.Input)
	case jsontext.IsObject(reasoning) && p.kind == "thinking":
		if data, err := base64.StdEncoding.DecodeString(stringMember(reasoning, "redactedContent")); err == nil && len(data) > 0 {
			p.grow("redacted", 0, string(data))
		}
		p.grow("signature", 0, stringMember(reasoning, "signature"))
		d.Thinking = stringMember(reasoning, "text")
		p.grow("text", 0, d.Thinking)
	}
	return d, nil
}

func (s *bedrockStream) content() []transcript.Block { return s.blocks(bedrockBlocks) }

// bedrockBlocks returns the block so far, none if there is nothing to show of it.
func bedrockBlocks(p *piece) []transcript.Block {
	text, redacted := p.text("text"), p.text("redacted")
	var block transcript.Block
	switch {
	case p.whole != nil:
		block = bedrockAnswerBlock(p.whole)
	case p.kind == "text" && (len(text) > 0 || p.done):
		block = citedText(text, p.list)
	case p.kind == "thinking" && redacted != "" && p.done:
		block = transcript.RedactedThinkingBlock{Data: base64.StdEncoding.EncodeToString([]byte(redacted))}
	case p.kind == "thinking" && redacted == "" && p.done:
		block = transcript.ThinkingBlock{Thinking: text, Signature: p.text("signature")}
	case p.kind == "thinking" && redacted == "": // half a signature is worse than none
		block = transcript.ThinkingBlock{Thinking: text}
	case p.kind == "call":
		block = transcript.ToolCallBlock{ID: stringMember(p.start, "toolUseId"), Name: stringMember(p.start, "name"), Input: callInput(p.text("input"), p.done)}
	case p.kind == "opaque" && p.done:
		block = bedrockAnswerBlock(ended(p))
	default:
		return nil
	}
	return []transcript.Block{block}
}

// ended returns an opaque block with what was added to it: the input of a call, the
// content of a result.
func ended(p *piece) []byte {
	name, added := "input", callInput(p.text("input"), p.done)
	if len(p.list) > 0 {
		name, added = "content", list(p.list, value).bytes()
	} else if p.text("input") == "" {
		return p.start
	}
	kind, block := typed(p.start)
	return object(kind, object("", without(block, name), name, added)).bytes()
}
