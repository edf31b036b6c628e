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
	if !jsontext.Valid(body) || !jsontext.IsObject(jsontext.Trim(body)) {
		return nil, fmt.Errorf("wire: the answer is not a JSON object: %q", excerpt(body))
	}
	body = jsontext.Trim(body)
	output, ok := jsontext.Member(body, "output")
	if !ok && stringMember(body, "message") != "" {
		return nil, NewAPIError(0, body)
	}
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
	usage, _ := jsontext.Member(body, "usage")
	if !jsontext.IsNull(usage) && !jsontext.IsObject(usage) {
		return nil, fmt.Errorf("wire: the answer's usage is not an object: %q", excerpt(usage))
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
			var list [][]byte
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
func citedText(text string, citations [][]byte) transcript.Block {
	if len(citations) == 0 {
		return transcript.TextBlock{Text: text}
	}
	ext := append(appendList([]byte(`{"citations":`), citations, appendBytes), '}')
	return transcript.TextBlock{Text: text, Extra: transcript.Extra{"ext": ext}}
}

// bedrockUsage returns the counts; those of a cache are not part of the input.
func bedrockUsage(usage json.RawMessage) (u transcript.Usage) {
	for name, value := range jsontext.Members(usage) {
		n, ok := jsontext.Int(value)
		var field *int
		switch name {
		case "inputTokens":
			field = &u.Input
		case "outputTokens":
			field = &u.Output
		case "cacheReadInputTokens":
			field = &u.CacheRead
		case "cacheWriteInputTokens":
			field = &u.CacheWrite
		}
		if field != nil && ok {
			*field = int(n)
			continue
		}
		if u.Extra == nil {
			u.Extra = transcript.Extra{}
		}
		u.Extra[name] = slices.Clone(value)
	}
	return u
}

func bedrockStop(reason string) transcript.StopReason {
	switch reason {
	case "guardrail_intervened", "content_filtered":
		return transcript.StopRefusal
	}
	return transcript.StopReason(reason) // the others have our names
}

// BedrockStream puts the events of ConverseStream together. Use
// [Bedrock.NewStream]; the zero value does not know its model. It is for one
// goroutine.
type BedrockStream struct {
	format Bedrock
	usage  json.RawMessage
	reason string
	blocks []*bedrockStreamBlock
	done   bool
	failed bool
}

// A bedrockStreamBlock is one block of an answer while it comes in.
type bedrockStreamBlock struct {
	index     int64
	kind      string // text, thinking, redacted, call, opaque
	id, name  string
	text      []byte // of a text, of reasoning, of an input
	signature []byte
	data      []byte // of redacted reasoning, decoded
	citations [][]byte
	raw       []byte // the start of an opaque block
	done      bool
}

// NewStream returns a stream for an answer to a request of b.
func (b Bedrock) NewStream() *BedrockStream { return &BedrockStream{format: b} }

// Add takes one event: its type, as its header :event-type (or, of an error,
// :exception-type) has it, "contentBlockDelta" for example, and its JSON. The
// binary framing of events is the business of an SDK. Events of unknown types
// are ignored. Done is set by messageStop; metadata with the usage follows. The
// payload may be reused afterwards.
//
// An event whose type ends in "Exception" gives an [*APIError]. Any other error
// means that the event is not one of a stream, or not one that can follow those
// before it; it is left out, and what was added before stays.
func (s *BedrockStream) Add(kind string, payload []byte) (Delta, error) {
	payload = jsontext.Trim(payload)
	if !jsontext.Valid(payload) || !jsontext.IsObject(payload) {
		return Delta{}, fmt.Errorf("wire: stream: event is not a JSON object: %q", excerpt(payload))
	}
	if strings.HasSuffix(kind, "Exception") {
		s.failed = true
		e := NewAPIError(0, payload)
		e.Type = kind
		return Delta{}, e
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
		return s.start(payload)
	case "contentBlockDelta":
		return s.delta(payload)
	case "contentBlockStop":
		b, err := s.open(payload, "")
		if err == nil {
			b.done = true
		}
		return Delta{}, err
	case "messageStop":
		s.reason, s.done = stringMember(payload, "stopReason"), true
		for _, b := range s.blocks {
			b.done = true
		}
		return Delta{Done: true}, nil
	case "metadata":
		usage, _ := jsontext.Member(payload, "usage")
		if !jsontext.IsNull(usage) && !jsontext.IsObject(usage) {
			return Delta{}, fmt.Errorf("wire: stream: usage is not an object: %q", excerpt(usage))
		}
		s.usage = slices.Clone(usage)
	}
	return Delta{}, nil
}

func (s *BedrockStream) start(payload []byte) (Delta, error) {
	b, err := s.open(payload, "opaque")
	if err != nil {
		return Delta{}, err
	}
	start, _ := jsontext.Member(payload, "start")
	b.raw = slices.Clone(start)
	if !jsontext.IsObject(start) {
		b.kind, b.raw = "text", nil
		return Delta{}, nil
	}
	call, _ := jsontext.Member(start, "toolUse")
	if !jsontext.IsObject(call) || stringMember(call, "type") != "" {
		return Delta{}, nil
	}
	b.kind, b.id, b.name = "call", stringMember(call, "toolUseId"), stringMember(call, "name")
	return Delta{ToolName: b.name}, nil
}

// open returns the block that an event is about. With a kind it is a block that
// the event may begin, as texts and reasoning have no start of their own.
func (s *BedrockStream) open(payload []byte, kind string) (*bedrockStreamBlock, error) {
	raw, _ := jsontext.Member(payload, "contentBlockIndex")
	index, ok := jsontext.Int(raw)
	if ok {
		for _, b := range slices.Backward(s.blocks) {
			if b.index != index {
				continue
			}
			if b.done || kind == "opaque" {
				ok = false
				break
			}
			return b, nil
		}
	}
	if !ok || kind == "" {
		return nil, fmt.Errorf("wire: stream: event about a block that is not open: %q", excerpt(payload))
	}
	b := &bedrockStreamBlock{index: index, kind: kind}
	s.blocks = append(s.blocks, b)
	return b, nil
}

func (s *BedrockStream) delta(payload []byte) (Delta, error) {
	delta, _ := jsontext.Member(payload, "delta")
	if !jsontext.IsObject(delta) {
		return Delta{}, fmt.Errorf("wire: stream: delta is not an object: %q", excerpt(payload))
	}
	text, isText := jsontext.Member(delta, "text")
	call, _ := jsontext.Member(delta, "toolUse")
	reasoning, _ := jsontext.Member(delta, "reasoningContent")
	citation, _ := jsontext.Member(delta, "citation")
	kind := "text"
	if jsontext.IsObject(reasoning) {
		kind = "thinking"
	}
	b, err := s.open(payload, kind)
	if err != nil {
		return Delta{}, err
	}
	switch {
	case isText && b.kind == "text":
		piece, _ := jsontext.String(text)
		b.text = append(b.text, piece...)
		return Delta{Text: piece}, nil
	case jsontext.IsObject(citation) && b.kind == "text":
		b.citations = append(b.citations, slices.Clone(citation))
	case jsontext.IsObject(call) && b.kind == "call":
		piece := stringMember(call, "input")
		b.text = append(b.text, piece...)
		return Delta{Input: piece}, nil
	case jsontext.IsObject(reasoning) && (b.kind == "thinking" || b.kind == "redacted"):
		return b.reason(reasoning), nil
	}
	return Delta{}, nil
}

// reason takes a piece of reasoning.
func (b *bedrockStreamBlock) reason(piece []byte) Delta {
	if data, err := base64.StdEncoding.DecodeString(stringMember(piece, "redactedContent")); err == nil && len(data) > 0 {
		b.kind, b.data = "redacted", append(b.data, data...)
	}
	b.signature = append(b.signature, stringMember(piece, "signature")...)
	text := stringMember(piece, "text")
	b.text = append(b.text, text...)
	return Delta{Thinking: text}
}

// Response returns the answer as far as it came. After metadata it is what
// [Bedrock.Response] would have given. Before messageStop its StopReason is
// [transcript.StopAborted], after an exception [transcript.StopError]: the text
// is kept as far as it came, reasoning too, though without a signature; a call
// that was not finished has the text of its input so far as a JSON string. The
// response is the caller's and does not change with later events.
func (s *BedrockStream) Response() *transcript.Response {
	resp := s.format.newResponse()
	resp.Usage = bedrockUsage(s.usage)
	switch {
	case s.failed:
		resp.StopReason = transcript.StopError
	case !s.done:
		resp.StopReason = transcript.StopAborted
	default:
		resp.StopReason = bedrockStop(s.reason)
	}
	for _, b := range s.blocks {
		if block := b.block(); block != nil {
			resp.Message.Content = append(resp.Message.Content, block)
		}
	}
	return resp
}

// block returns the block so far, nil if there is nothing to show of it.
func (b *bedrockStreamBlock) block() transcript.Block {
	switch b.kind {
	case "text":
		if len(b.text) == 0 && !b.done {
			return nil
		}
		return citedText(string(b.text), b.citations)
	case "thinking":
		t := transcript.ThinkingBlock{Thinking: string(b.text)}
		if b.done { // half a signature is worse than none
			t.Signature = string(b.signature)
		}
		return t
	case "redacted":
		if !b.done {
			return nil
		}
		return transcript.RedactedThinkingBlock{Data: base64.StdEncoding.EncodeToString(b.data)}
	case "call":
		input := json.RawMessage(`""`) // a call without input looks the same until it ends
		switch {
		case len(b.text) > 0:
			input = jsontext.AppendValue(nil, b.text)
		case b.done:
			input = json.RawMessage("{}")
		}
		return transcript.ToolCallBlock{ID: b.id, Name: b.name, Input: input}
	}
	if !b.done {
		return nil
	}
	return bedrockAnswerBlock(b.raw)
}
