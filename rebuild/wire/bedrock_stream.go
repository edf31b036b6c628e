package wire

import (
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
//
// An error body gives an [*APIError], without a status; [NewAPIError] takes one.
func (b Bedrock) Response(body []byte) (*transcript.Response, error) {
	body, err := answerObject(body, isBedrockError)
	if err != nil {
		return nil, err
	}
	output, _ := jsontext.Member(body, "output")
	var message []byte
	if jsontext.IsObject(output) {
		message, _ = jsontext.Member(output, "message")
	}
	if !jsontext.IsObject(message) {
		return nil, fmt.Errorf("wire: the answer has no message: %q", excerpt(body))
	}
	if role := stringMember(message, "role"); role != "" && role != string(transcript.RoleAssistant) {
		return nil, fmt.Errorf("wire: the answer has role %q", role)
	}
	resp := b.newResponse()
	usage, err := usageMember(body, "usage")
	if err != nil {
		return nil, err
	}
	resp.Usage = bedrockUsage(usage)
	resp.StopReason = bedrockStop(stringMember(body, "stopReason"))
	content, _ := jsontext.Member(message, "content")
	for e := range jsontext.Elements(content) {
		if !jsontext.IsObject(e) {
			return nil, fmt.Errorf("wire: the answer has content that is no block: %q", excerpt(e))
		}
		resp.Message.Content = append(resp.Message.Content, bedrockAnswerBlock(e))
	}
	return resp, nil
}

// isBedrockError reports whether obj is an error in the place of an answer.
func isBedrockError(obj []byte) bool {
	_, answered := jsontext.Member(obj, "output")
	return !answered && stringMember(obj, "message") != ""
}

func (b Bedrock) newResponse() *transcript.Response {
	return &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant}, API: apiBedrock, Model: b.Model}
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
			input, _ := jsontext.Member(value, "input")
			if jsontext.IsNull(input) {
				input = []byte("{}")
			}
			return transcript.ToolCallBlock{ID: stringMember(value, "toolUseId"), Name: stringMember(value, "name"), Input: slices.Clone(input)}
		case name == "reasoningContent":
			if text, _ := jsontext.Member(value, "reasoningText"); jsontext.IsObject(text) {
				return transcript.ThinkingBlock{Thinking: stringMember(text, "text"), Signature: stringMember(text, "signature")}
			}
			if data := stringMember(value, "redactedContent"); data != "" {
				return transcript.RedactedThinkingBlock{Data: data}
			}
		case name == "citationsContent":
			var text strings.Builder
			content, _ := jsontext.Member(value, "content")
			for e := range jsontext.Elements(content) {
				if jsontext.IsObject(e) {
					text.WriteString(stringMember(e, "text"))
				}
			}
			citations, _ := jsontext.Member(value, "citations")
			var list []json.RawMessage
			for c := range jsontext.Elements(citations) {
				list = append(list, c)
			}
			return citedText(text.String(), list)
		}
	}
	o := jsontext.AppendObject(nil)
	o.String("type", opaqueBedrock)
	o.Value("block", block)
	return transcript.RawBlock{JSON: o.End()}
}

// citedText returns a text with the citations that it came with.
func citedText(text string, citations []json.RawMessage) transcript.Block {
	if len(citations) == 0 {
		return transcript.TextBlock{Text: text}
	}
	ext := append(appendList([]byte(`{"citations":`), citations, appendRaw), '}')
	return transcript.TextBlock{Text: text, Extra: transcript.Extra{"ext": ext}}
}

// bedrockUsage returns the counts; those of a cache are not part of the input.
func bedrockUsage(usage json.RawMessage) (u transcript.Usage) {
	u.Extra = readCounts(usage, map[string]*int{
		"inputTokens": &u.Input, "outputTokens": &u.Output, "cacheReadInputTokens": &u.CacheRead, "cacheWriteInputTokens": &u.CacheWrite,
	})
	return u
}

func bedrockStop(reason string) transcript.StopReason {
	switch reason {
	case "guardrail_intervened", "content_filtered":
		return transcript.StopRefusal
	}
	return transcript.StopReason(reason) // the others have our names
}

type bedrockStream struct {
	accumulator
	format Bedrock
}

// NewStream returns a stream for an answer to a request of b.
func (b Bedrock) NewStream() *Stream { return &Stream{&bedrockStream{format: b}} }

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

func (*bedrockStream) refusal(event []byte) *APIError {
	kind, payload := typed(event)
	if !strings.HasSuffix(kind, "Exception") {
		return nil
	}
	e := NewAPIError(0, payload)
	e.Type = kind
	return e
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
		if role := stringMember(payload, "role"); role != string(transcript.RoleAssistant) {
			return Delta{}, fmt.Errorf("wire: the answer has role %q", role)
		}
	case "contentBlockStart":
		return s.startBlock(payload)
	case "contentBlockDelta":
		return s.delta(payload)
	case "contentBlockStop":
		p, err := s.open(payload, blockIndex)
		if err == nil {
			p.done = true
		}
		return Delta{}, err
	case "messageStop":
		s.reason = stringMember(payload, "stopReason")
		s.end()
		return Delta{Done: true}, nil
	case "metadata":
		usage, err := usageMember(payload, "usage")
		if err != nil {
			return Delta{}, err
		}
		s.mergeUsage(usage)
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
	start, _ := jsontext.Member(payload, "start")
	if !jsontext.IsObject(start) {
		s.begin(index, "text", nil)
		return Delta{}, nil
	}
	call, _ := jsontext.Member(start, "toolUse")
	if !jsontext.IsObject(call) || stringMember(call, "type") != "" {
		s.begin(index, "opaque", start)
		return Delta{}, nil
	}
	s.begin(index, "call", call)
	return Delta{ToolName: stringMember(call, "name")}, nil
}

// delta adds to a block. Texts and reasoning have no start of their own.
func (s *bedrockStream) delta(payload []byte) (Delta, error) {
	delta, _ := jsontext.Member(payload, "delta")
	if !jsontext.IsObject(delta) {
		return Delta{}, fmt.Errorf("wire: stream: delta is not an object: %q", excerpt(payload))
	}
	text, isText := jsontext.Member(delta, "text")
	call, _ := jsontext.Member(delta, "toolUse")
	reasoning, _ := jsontext.Member(delta, "reasoningContent")
	citation, _ := jsontext.Member(delta, "citation")
	result, _ := jsontext.Member(delta, "toolResult")
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
	case isText && p.kind == "text":
		piece, _ := jsontext.String(text)
		p.grow("text", 0, piece)
		return Delta{Text: piece}, nil
	case jsontext.IsObject(citation) && p.kind == "text":
		p.list = append(p.list, slices.Clone(citation))
	case jsontext.IsArray(result) && p.kind == "opaque":
		for e := range jsontext.Elements(result) {
			p.list = append(p.list, slices.Clone(e))
		}
	case jsontext.IsObject(call) && p.kind == "opaque":
		p.grow("input", 0, stringMember(call, "input"))
	case jsontext.IsObject(call) && p.kind == "call":
		piece := stringMember(call, "input")
		p.grow("input", 0, piece)
		return Delta{Input: piece}, nil
	case jsontext.IsObject(reasoning) && p.kind == "thinking":
		if data, err := base64.StdEncoding.DecodeString(stringMember(reasoning, "redactedContent")); err == nil && len(data) > 0 {
			p.grow("redacted", 0, string(data))
		}
		p.grow("signature", 0, stringMember(reasoning, "signature"))
		text := stringMember(reasoning, "text")
		p.grow("text", 0, text)
		return Delta{Thinking: text}, nil
	}
	return Delta{}, nil
}

func (s *bedrockStream) response() *transcript.Response {
	resp := s.format.newResponse()
	resp.Usage = bedrockUsage(s.counts())
	resp.StopReason = bedrockStop(s.reason)
	for _, p := range s.pieces {
		if block := bedrockSoFar(p); block != nil {
			resp.Message.Content = append(resp.Message.Content, block)
		}
	}
	return resp
}

// bedrockSoFar returns the block so far, nil if there is nothing to show of it.
func bedrockSoFar(p *piece) transcript.Block {
	text, _ := p.text("text")
	signature, _ := p.text("signature")
	redacted, isRedacted := p.text("redacted")
	switch {
	case p.kind == "text" && (len(text) > 0 || p.done):
		return citedText(string(text), p.list)
	case p.kind == "thinking" && isRedacted && p.done:
		return transcript.RedactedThinkingBlock{Data: base64.StdEncoding.EncodeToString(redacted)}
	case p.kind == "thinking" && !isRedacted && p.done:
		return transcript.ThinkingBlock{Thinking: string(text), Signature: string(signature)}
	case p.kind == "thinking" && !isRedacted: // half a signature is worse than none
		return transcript.ThinkingBlock{Thinking: string(text)}
	case p.kind == "call":
		return transcript.ToolCallBlock{ID: stringMember(p.start, "toolUseId"), Name: stringMember(p.start, "name"), Input: p.input("input")}
	case p.kind == "opaque" && p.done:
		return bedrockAnswerBlock(p.ended())
	}
	return nil
}

// ended returns an opaque block with what was added to it: the input of a call, the
// content of a result.
func (p *piece) ended() []byte {
	name, added := "input", p.input("input")
	if len(p.list) > 0 {
		name, added = "content", appendList(nil, p.list, appendRaw)
	} else if p.size("input") == 0 {
		return p.start
	}
	o := jsontext.AppendObject(nil)
	for kind, block := range jsontext.Members(p.start) {
		o.Object(kind, func(inner *jsontext.Object) {
			for member, value := range jsontext.Members(block) {
				if member != name {
					inner.Value(member, value)
				}
			}
			inner.Value(name, added)
		})
	}
	return o.End()
}
